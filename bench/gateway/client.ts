/** The loop of `npm run bench gateway` on Rollcall's gateway. A job a line on standard input, a result a line. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { gateway } from '../../src/gateway/gateway.ts';
import { SglangServer } from '../../src/inference/sglang.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import type { GatewayJob, GatewayResult } from './job.ts';

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line) as GatewayJob)));
}

async function run(job: GatewayJob): Promise<GatewayResult> {
  const { urls, trajectories, turns, promptTokens, replyTokens, latencyMs } = job;
  const front = gateway(urls.map((url) => new SglangServer({ url })));
  const added: number[] = [];
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 250);
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const began = performance.now();
  const cpu = process.cpuUsage();
  const done = await Promise.all(Array.from({ length: trajectories }, (_, number) => trajectory(number)));
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - began) / 1000;
  delay.disable();
  clearInterval(watch);
  peak = Math.max(peak, process.memoryUsage.rss());
  const stuck = front.status().reduce((sum, { inFlight }) => sum + inFlight, 0);
  if (stuck > 0) throw new Error(`${stuck} requests are in flight after the last reply`);
  const failed = front.status().reduce((sum, { failures }) => sum + failures, 0);
  if (failed > 0) throw new Error(`${failed} requests failed and were sent again`);
  await front.close();
  added.sort((a, b) => a - b);
  const quantile = (share: number) => added[Math.floor(share * (added.length - 1))]!;
  return {
    turns: added.length,
    seconds,
    cpuSeconds: (user + system) / 1e6,
    p50AddedMs: quantile(0.5),
    p99AddedMs: quantile(0.99),
    maxAddedMs: quantile(1),
    loopDelayP99Ms: delay.percentile(99) / 1e6 - 10,
    peakBytes: peak - before,
    tokenBytes: done.reduce((sum, { ids, logprobs }) => sum + ids.byteLength + logprobs.byteLength, 0),
  };

  async function trajectory(number: number) {
    // By whole hundredths of a second: Node keeps a list for every length of time, and thousands of lists cost more than a turn.
    await sleep(10 * Math.floor((latencyMs * number) / trajectories / 10));
    const name = `bench/${number}`;
    const expected = (latencyMs * (50 + ((number * 61) % 100))) / 100;
    const { signal } = new AbortController();
    const ids = new Int32Array(promptTokens + turns * replyTokens);
    const logprobs = new Float32Array(turns * replyTokens);
    for (let at = 0; at < promptTokens; at++) ids[at] = (number * 7919 + at * 104729) % 150_000;
    let length = promptTokens;
    for (let turn = 0; turn < turns; turn++) {
      const asked = performance.now();
      const reply = await front.generate({
        id: `${name}/${turn}/`,
        trajectory: name,
        prompt: ids.subarray(0, length),
        sampling: { ...PLAIN_SAMPLING, maxTokens: replyTokens, stopIds: [2], seed: 7 },
        signal,
      });
      ids.set(reply.ids, length);
      logprobs.set(reply.logprobs, length - promptTokens);
      length += reply.ids.length;
      added.push(performance.now() - asked - expected);
    }
    return { ids, logprobs };
  }
}

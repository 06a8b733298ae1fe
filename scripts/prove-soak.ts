/**
 * A control plane that runs for long: `npm run prove soak [-- --quick --minutes 60 --open 100000]`. Thousands of trajectories at
 * once over servers that fail, die and come back, and tools that hang; round after round. Memory, handles, timers and file
 * descriptors must be flat, by the slope of what is left after each round, with its confidence. First it is seen how
 * many trajectories one process holds open.
 */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { agent, reward, rollout, tool, toolLoop } from 'rollcall';
import { gateway } from 'rollcall/scheduling';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { z } from 'zod';
import { SglangServer } from '../src/inference/sglang.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { realClock, sleep } from '../src/lib/clock.ts';
import { createRandom } from '../src/lib/random.ts';
import { type StartedServer, startProcess } from '../test/stand-ins/start.ts';
import { readFlags } from './flags.ts';
import { type Aim, atLeast, conclude, holds } from './verdict.ts';

const flags = readFlags(
  { minutes: '60', trajectories: '2000', open: '100000', killEveryMs: '4000', trouble: '0.05' },
  { minutes: '7', open: '20000' },
);
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const clock = realClock();
const random = createRandom(1);
const { format, tokenizer } = byteModel();
const worth = reward<object>('length', ({ trajectory }) => trajectory.text.length);
const tasksOf = (count: number) => Array.from({ length: count }, (_, index) => ({ index, task: {} }));

/** How much memory open trajectories take: all have asked, and nobody answers until all have. */
async function holdOpen(count: number) {
  collect();
  const before = process.memoryUsage().heapUsed;
  let open = 0;
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const held = new Promise<number>((resolve) => {
    const server = scriptedEngine({
      tokenizer,
      reply: async () => {
        if (++open === count) resolve(process.memoryUsage().heapUsed);
        await answered;
        return 'done';
      },
    });
    ended = rollout({
      name: 'open',
      tasks: tasksOf(count / 4),
      attempts: 4,
      step: 1,
      seed: 1,
      agent: agent(async ({ model }) => {
        const chat = model.chat();
        chat.user('Say something.');
        await chat.sample();
      }),
      rewards: [worth],
      server,
      format,
      limits: { turns: 2, tokensPerReply: 16, tokensPerTrajectory: 512 },
      concurrency: count,
    });
    ended.catch(() => resolve(Number.NaN));
  });
  const bytes = (await held) - before;
  answer();
  const completed = (await ended!).flatMap(({ attempts }) => attempts).length;
  return {
    open: completed,
    kilobytesEach: Math.round(bytes / count / 1000),
    heapGigabytes: Number((bytes / 1e9).toFixed(2)),
  };
}
let ended: ReturnType<typeof rollout<object>> | undefined;

const script = fileURLToPath(new URL('../test/stand-ins/chaotic.mjs', import.meta.url));
const ENGINES = ['sglang', 'sglang', 'vllm'] as const;
const start = (engine: string, port = 0) =>
  startProcess(
    [script, JSON.stringify({ engine, trouble: Number(flags.trouble), seed: random.integer(2 ** 31) })],
    {
      PORT: String(port),
    },
  );

interface Sample {
  readonly minutes: number;
  readonly heap: number;
  readonly rss: number;
  readonly handles: number;
  readonly timers: number;
  readonly descriptors: number;
}

/** Longer than a connection is kept for its next request: what an idle one holds depends on when the round ended. */
const SETTLE_MS = 5000;

async function sampleNow(began: number): Promise<Sample> {
  await sleep(clock, SETTLE_MS);
  collect();
  await sleep(clock, 50); // finalizers run, and free more
  collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  const active = process.getActiveResourcesInfo();
  return {
    minutes: (clock.now() - began) / 60_000,
    heap: (heapUsed + external) / 1e6,
    rss: rss / 1e6,
    timers: active.filter((name) => name === 'Timeout').length,
    handles: active.filter((name) => name !== 'Timeout').length,
    descriptors: readdirSync('/proc/self/fd').length,
  };
}

/** Slope by least squares, in units an hour, with the half width of its 95 % interval. */
function slopeOf(samples: readonly Sample[], of: (sample: Sample) => number) {
  const n = samples.length;
  const x = samples.map(({ minutes }) => minutes / 60);
  const y = samples.map(of);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / n;
  const [meanX, meanY] = [mean(x), mean(y)];
  const spread = x.reduce((sum, value) => sum + (value - meanX) ** 2, 0);
  const slope = x.reduce((sum, value, at) => sum + (value - meanX) * (y[at]! - meanY), 0) / spread;
  const rest = y.reduce((sum, value, at) => sum + (value - meanY - slope * (x[at]! - meanX)) ** 2, 0);
  const half = 2 * Math.sqrt(rest / Math.max(1, n - 2) / spread);
  return { perHour: slope, half, mean: meanY };
}

const capacity = await holdOpen(Number(flags.open));
console.log(`open at once: ${JSON.stringify(capacity)}`);
ended = undefined;

// The tokenizer keeps the last ten thousand words: an hour would show them arriving, and call it growth.
for (let word = 0; word <= 10_000; word++)
  tokenizer.encode(word.toString(2).padStart(80, '0').replaceAll('0', 'a').replaceAll('1', 'b'));

const running: StartedServer[] = await Promise.all(ENGINES.map((engine) => start(engine)));
const front = gateway(
  running.map(({ url }, at) =>
    ENGINES[at] === 'vllm' ? new VllmServer({ url }) : new SglangServer({ url }),
  ),
  { tries: 8, backoffMs: 5, longestBackoffMs: 200, secondsPerRequest: 10 },
);
const over = new AbortController();
let restarts = 0;
const killer = (async () => {
  while (!over.signal.aborted) {
    await sleep(clock, Number(flags.killEveryMs) * (0.5 + random.next()), over.signal).catch(() => {});
    if (over.signal.aborted) return;
    const at = random.integer(running.length);
    const { url } = running[at]!;
    await running[at]!.stop('SIGKILL');
    running[at] = await start(ENGINES[at]!, Number(new URL(url).port));
    restarts++;
  }
})();

const waiting = tool({
  name: 'wait',
  description: 'Waits; one call in five never returns.',
  input: z.object({ at: z.number() }),
  timeoutMs: 500,
  run: async ({ at }) => (at % 5 === 0 ? new Promise<string>(() => {}) : 'waited'),
});
const called = { count: 0 };
const shared = { step: 1, rewards: [worth], format, failures: { tolerateShare: 1 } };

/** Three quarters over servers that die, a quarter with tools that hang. */
async function round(number: number, count: number): Promise<Record<string, number>> {
  const served = rollout({
    ...shared,
    name: 'served',
    seed: number,
    tasks: tasksOf((count * 3) / 16),
    attempts: 4,
    agent: agent(async ({ model, attempt }) => {
      const chat = model.chat();
      for (let turn = 0; turn < 3; turn++) {
        chat.user(`${attempt}: go on (${turn}).`);
        await chat.sample();
      }
    }),
    server: front,
    limits: { turns: 3, tokensPerReply: 64, tokensPerTrajectory: 4096 },
    concurrency: count,
  });
  const engine = scriptedEngine({
    tokenizer,
    reply: ({ turn }) =>
      turn < 2
        ? `<tool_call>\n{"name": "wait", "arguments": {"at": ${called.count++}}}\n</tool_call>`
        : 'done',
    firstTokenMs: 20,
  });
  const tools = rollout({
    ...shared,
    name: 'tools',
    seed: number,
    tasks: tasksOf(count / 16),
    attempts: 4,
    agent: toolLoop({ prompt: 'Wait twice.', tools: [waiting] }),
    server: engine,
    limits: { turns: 4, tokensPerReply: 128, tokensPerTrajectory: 4096 },
    concurrency: count,
  });
  const groups = [...(await served), ...(await tools)];
  const ends: Record<string, number> = {};
  for (const { trajectory } of groups.flatMap(({ attempts }) => attempts))
    ends[trajectory.end.kind] = (ends[trajectory.end.kind] ?? 0) + 1;
  return ends;
}

const began = clock.now();
const samples: Sample[] = [];
const ends: Record<string, number> = {};
let rounds = 0;
let counted = 0;
let left = 0;
while (clock.now() - began < Number(flags.minutes) * 60_000) {
  const those = await round(++rounds, Number(flags.trajectories));
  for (const [kind, count] of Object.entries(those)) {
    ends[kind] = (ends[kind] ?? 0) + count;
    counted += count;
  }
  samples.push(await sampleNow(began));
  left = Math.max(left, ...front.status().map(({ inFlight }) => inFlight));
  if (rounds % 10 === 0) console.log(`round ${rounds}: ${JSON.stringify(samples.at(-1))}`);
}
over.abort();
await killer;
await front.close();
await Promise.all(running.map((server) => server.stop('SIGKILL')));

const settled = samples.slice(Math.ceil(samples.length / 4));
const slopes = {
  heap: slopeOf(settled, ({ heap }) => heap),
  rss: slopeOf(settled, ({ rss }) => rss),
  handles: slopeOf(settled, ({ handles }) => handles),
  timers: slopeOf(settled, ({ timers }) => timers),
  descriptors: slopeOf(settled, ({ descriptors }) => descriptors),
};
/**
 * In half an hour or more it is shown that nothing grows faster: the upper end of the interval. In less, where the interval is
 * wide, only that growth is not certain: the lower end.
 */
const isLong = Number(flags.minutes) >= 30;
const flat = (name: keyof typeof slopes, most: number, unit: string): Aim => {
  const { perHour, half, mean } = slopes[name];
  const shown = `${perHour.toFixed(2)} ± ${half.toFixed(2)} ${unit} an hour at ${mean.toFixed(1)}`;
  return isLong
    ? holds(`${name}: surely grows by less than ${most} ${unit} an hour`, perHour + half <= most, shown)
    : holds(`${name}: not sure to grow by ${most} ${unit} an hour`, perHour - half <= most, shown);
};
conclude(
  [
    atLeast('trajectories open at once', capacity.open, Number(flags.open)),
    atLeast('rounds', rounds, 8),
    flat('heap', 20, 'MB'),
    flat('rss', 60, 'MB'),
    flat('handles', 2, 'handles'),
    flat('timers', 2, 'timers'),
    flat('descriptors', 2, 'descriptors'),
    holds(
      'every trajectory ended once, and no request is left',
      counted === rounds * Number(flags.trajectories) && left === 0,
      {
        counted,
        left,
      },
    ),
  ],
  { capacity, rounds, restarts, ends, slopes, minutes: Number(flags.minutes) },
);

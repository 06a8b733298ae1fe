/**
 * Many trajectories open at once against one real server: `npm run bench open-trajectories -- --url http://gpu:8000 --model DIR`
 * begins 10,000 at the same moment; without `--url` a vLLM is started on the CPU. What Rollcall adds to a turn is the time
 * beyond the server's, which proxies in other processes measure (their own time counts as added).
 */
import { execFileSync, spawn } from 'node:child_process';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readFlags } from '../scripts/flags.ts';
import { atLeast, atMost, conclude } from '../scripts/verdict.ts';
import { ConfigError } from '../src/errors.ts';
import { gateway } from '../src/gateway/gateway.ts';
import type { GenerateRequest } from '../src/inference/server.ts';
import { realClock } from '../src/lib/clock.ts';
import { playTrajectory } from '../testing/index.ts';
import { drawBatch } from './rollout/draw.ts';
import { openServer, SERVER_FLAGS } from './rollout/open-server.ts';

const flags = readFlags(
  {
    ...SERVER_FLAGS,
    trajectories: '10000',
    turns: '3',
    'tool-seconds': '0.5',
    sigma: '0.6',
    'prompt-tokens': '64',
    'reply-tokens': '16',
    'result-tokens': '16',
    minutes: '9',
    seed: '1',
  },
  { trajectories: '1000', 'reply-tokens': '8' },
);
const say = (line: string) => console.error(line);
const trajectories = Number(flags.trajectories);
const clock = realClock();
/** Each takes two open files a trajectory; 10,000 is a usual limit of a process. */
const PER_PROXY = 4000;
checkOpenFiles();
const opened = await openServer(flags, say);
const proxies = await Promise.all(
  Array.from({ length: Math.ceil(trajectories / PER_PROXY) }, () => startProxy(new URL(opened.url))),
);
try {
  await measure();
} finally {
  for (const { end } of proxies) end();
  await opened.stop();
}

async function measure(): Promise<void> {
  const front = gateway(
    proxies.map(({ url }) => opened.connect(url)),
    { log: say },
  );
  await front.info();
  const plans = drawBatch({
    trajectories,
    turns: Number(flags.turns),
    toolSeconds: Number(flags['tool-seconds']),
    toolSigma: Number(flags.sigma),
    promptTokens: Number(flags['prompt-tokens']),
    replyTokens: Number(flags['reply-tokens']),
    resultTokens: Number(flags['result-tokens']),
    seed: Number(flags.seed),
  });
  /** Milliseconds of each trajectory's turns as its agent sees them. */
  const seen = new Map<string, number[]>(plans.map(({ id }) => [id, []]));
  const open = { now: 0, most: 0, inFlight: 0, mostInFlight: 0 };
  const timed = {
    generate: async (request: GenerateRequest) => {
      open.mostInFlight = Math.max(open.mostInFlight, ++open.inFlight);
      const asked = performance.now();
      const reply = await front.generate(request);
      seen.get(request.trajectory)!.push(performance.now() - asked);
      open.inFlight--;
      return reply;
    },
    ended: (trajectory: string) => front.ended(trajectory),
  };
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const cpu = process.cpuUsage();
  const began = performance.now();
  // One each, as in a run: a signal walks through all its listeners when one is added.
  const stops = plans.map(() => new AbortController());
  const late = new Error(`not done in ${flags.minutes} minutes`);
  const timer = setTimeout(() => {
    for (const stop of stops) stop.abort(late);
  }, 60_000 * Number(flags.minutes));
  let done = 0;
  const watch = setInterval(
    () => say(`${done} of ${trajectories} done, ${open.inFlight} requests in flight`),
    5000,
  );
  const played = await Promise.allSettled(
    plans.map(async (plan, at) => {
      open.most = Math.max(open.most, ++open.now);
      try {
        const { signal } = stops[at]!;
        const { vocabulary } = opened;
        return await playTrajectory(plan, {
          server: timed,
          clock,
          seed: Number(flags.seed),
          vocabulary,
          signal,
        });
      } finally {
        open.now--;
        done++;
      }
    }),
  );
  clearInterval(watch);
  clearTimeout(timer);
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  delay.disable();
  const failures = played.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []));
  if (failures.length > 0) say(`failed: ${failures[0]!.message}`);
  const sampled = played.reduce(
    (sum, one) => sum + (one.status === 'fulfilled' ? one.value.sampledTokens : 0),
    0,
  );
  const turns = [...seen.values()].reduce((sum, { length }) => sum + length, 0);
  const added = addedOf(seen, await Promise.all(proxies.map(({ times }) => times())));
  await front.close();
  conclude(
    [
      atMost('trajectories that failed', failures.length, 0),
      atLeast('trajectories open at once', open.most, trajectories),
      atLeast('turns whose time on the server is known', added.first.length + added.later.length, turns),
      atMost(
        'p99 of what a turn after the first takes beyond its server, in ms',
        quantile(added.later, 0.99),
        100,
      ),
    ],
    {
      model: opened.model.split('/').at(-1),
      trajectories,
      turns,
      seconds: round(seconds),
      trajectoriesPerSecond: round((played.length - failures.length) / seconds),
      tokensPerSecond: round(sampled / seconds),
      mostInFlight: open.mostInFlight,
      triesThatFailed: front.status().reduce((sum, { failures: some }) => sum + some, 0),
      turnSeconds: quantiles([...seen.values()].flat().map((ms) => ms / 1000)),
      // All first turns are sent at the same moment, so each waits for those before it.
      addedMsFirstTurn: quantiles(added.first),
      addedMsLaterTurns: quantiles(added.later),
      loopDelayP99Ms: round(delay.percentile(99) / 1e6 - 10),
      cpuMicrosecondsPerTurn: round((user + system) / turns),
      memoryMB: round(process.memoryUsage.rss() / 1e6),
    },
  );
}

/** When a request was sent, and how long it took. */
type Timed = readonly [sentAt: number, milliseconds: number];

/**
 * A try that the server never answered has no time of its own, and counts as added. Trajectories with more answers than turns
 * are left out: which time belongs to which turn is not known.
 */
function addedOf(
  seen: ReadonlyMap<string, readonly number[]>,
  byProxy: readonly Readonly<Record<string, readonly Timed[]>>[],
): { readonly first: number[]; readonly later: number[] } {
  const added = { first: [] as number[], later: [] as number[] };
  for (const [trajectory, turns] of seen) {
    const onServer = byProxy.flatMap((times) => times[encodeURI(trajectory)] ?? []).sort(([a], [b]) => a - b);
    if (onServer.length !== turns.length) continue;
    for (const [at, ms] of turns.entries()) added[at === 0 ? 'first' : 'later'].push(ms - onServer[at]![1]);
  }
  return added;
}

async function startProxy({ hostname, port }: URL) {
  const script = fileURLToPath(new URL('./rollout/timed-proxy.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, hostname, port], { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const text of createInterface(child.stdout)) {
    const url = `http://127.0.0.1:${/\d+/.exec(text)![0]}`;
    const times = async () => (await (await fetch(`${url}/times`)).json()) as Record<string, Timed[]>;
    return { url, times, end: () => child.kill() };
  }
  throw new Error('the proxy did not start');
}

function checkOpenFiles(): void {
  const most = execFileSync('bash', ['-c', 'ulimit -Hn']).toString().trim();
  const needed = trajectories + 1000;
  if (most !== 'unlimited' && Number(most) < needed)
    throw new ConfigError(
      `${trajectories} trajectories need ${needed} open files, and \`ulimit -Hn\` is ${most}`,
    );
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
}

function quantiles(values: readonly number[]) {
  const [p50, p99, most] = [0.5, 0.99, 1].map((share) => round(quantile(values, share)));
  return { p50, p99, most };
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

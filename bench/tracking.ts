/**
 * What watching costs a rollout: `npm run bench tracking`. 256 trajectories at once on a scripted engine, whose replies
 * take a fixed time; with everything on (event files, MLflow, W&B, traces with text, to stand-ins in another thread;
 * trajectories written to disk; servers and machine looked at) against nothing, interleaved. The last line is JSON.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, reward, rollout } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { mlflow, mlflowTraces, type Tracker, tensorboard, wandb } from 'rollcall/trackers';
import { readFlags } from '../scripts/flags.ts';
import { atLeast, conclude, holds } from '../scripts/verdict.ts';
import { realClock } from '../src/lib/clock.ts';
import { startWorker } from '../src/lib/worker.ts';
import type { Group } from '../src/types.ts';
import { watchMachine } from '../src/watch/machine-use.ts';
import { watchServers, writeServerSamples } from '../src/watch/server-samples.ts';
import { trackerMemory } from '../src/watch/trackers/memory.ts';
import { startTracking } from '../src/watch/trackers/tracking.ts';
import { writeTrajectories } from '../src/watch/trajectory-store.ts';

const TRAJECTORIES = 256;
const ROUNDS = Number(readFlags({ rounds: '6' }, { rounds: '3' }).rounds);
const METRICS = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`group/metric_${at}`, at / 7]));

const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-tracking-'));
const servers = startWorker('./tracking/worker', import.meta.url);
const urls = await new Promise<{ mlflow: string; wandb: string }>((resolve) =>
  servers.once('message', resolve),
);
const environment = { MLFLOW_TRACKING_URI: urls.mlflow, WANDB_API_KEY: 'key', WANDB_BASE_URL: urls.wandb };
const names = { project: 'p', experiment: 'e', environment };
const trackers: Tracker[] = [
  tensorboard({ directory: folder }),
  mlflow(names),
  mlflowTraces({ ...names, text: true }),
  wandb(names),
];
const { tokenizer, format } = byteModel();
// Five turns of some fifty tokens each, fifty tokens a second per trajectory: 12,800 a second at once.
const server = scriptedEngine({
  tokenizer,
  reply: ({ turn, random }) => `turn ${turn}: ${'x'.repeat(20 + random.integer(40))}`,
  firstTokenMs: 60,
  tokenMs: 20,
});
const tracking = startTracking(trackers, {
  directory: folder,
  options: {},
  resumedAt: undefined,
  clockBegan: Date.now(),
  decode: (ids) => format.decode(ids),
  memory: trackerMemory(folder),
});

const taken = { off: [] as number[], on: [] as number[] };
/** Processor time of all threads, the stand-ins' too: a busy machine does not change it. */
const busy = { off: [] as number[], on: [] as number[] };
const times = { off: [] as number[][], on: [] as number[][] };
let last: Group[] = [];
for (let round = 0; round <= 2 * ROUNDS; round++) {
  const mode = round % 2 === 0 ? 'off' : 'on';
  // What a step leaves to its trackers is sent while the next one rolls out.
  const watching = mode === 'on' ? startWatching(round) : undefined;
  const began = performance.now();
  const cpuBefore = process.cpuUsage();
  const groups = await oneRollout(Math.ceil(round / 2)); // the same replies with and without
  if (round > 0) {
    taken[mode].push(performance.now() - began);
    const { user, system } = process.cpuUsage(cpuBefore);
    busy[mode].push((user + system) / 1000);
    times[mode].push(
      groups.flatMap(({ attempts }) =>
        attempts.map(({ trajectory: { spans } }) => spans.at(-1)!.end - spans[0]!.start),
      ),
    );
  }
  await watching?.();
  last = groups;
  await new Promise((resolve) => setTimeout(resolve, 500)); // the queue is empty before the next round
}
await tracking.close('finished');
await servers.terminate();
const quantile = (values: readonly number[], share: number) =>
  [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))]!;
/** The median round's, because one round in a busy moment would be all of a pooled p99. */
const ofRounds = (rounds: readonly number[][], share: number) =>
  quantile(
    rounds.map((round) => quantile(round, share)),
    0.5,
  );
const ratio = (share: number) => ofRounds(times.off, share) / ofRounds(times.on, share);
const result = {
  trajectories: TRAJECTORIES,
  rounds: ROUNDS,
  millisecondsOff: Math.round(quantile(taken.off, 0.5)),
  millisecondsOn: Math.round(quantile(taken.on, 0.5)),
  cpuMillisecondsOff: Math.round(quantile(busy.off, 0.5)),
  cpuMillisecondsOn: Math.round(quantile(busy.on, 0.5)),
  throughputOnToOff: Number((quantile(taken.off, 0.5) / quantile(taken.on, 0.5)).toFixed(3)),
  p50OffToOn: Number(ratio(0.5).toFixed(3)),
  p99OffToOn: Number(ratio(0.99).toFixed(3)),
  trouble: tracking.takeNotices(),
};
conclude(
  [
    atLeast('throughput with everything on, against off', result.throughputOnToOff, 0.98),
    atLeast('p99 of a trajectory off, against on', result.p99OffToOn, 0.95),
    holds('no tracker is in trouble', result.trouble.length === 0, result.trouble),
  ],
  result,
);

/** All that a run does beside its rollout, with the groups of the step before. */
function startWatching(step: number): () => Promise<void> {
  tracking.log({ step, seconds: step, time: Date.now(), metrics: METRICS });
  tracking.trace(last.flatMap(({ attempts }) => attempts));
  const clock = realClock();
  const machine = watchMachine(clock);
  const load = watchServers(() => [{ name: 'server 0', inFlight: server.inFlight }], clock);
  const written = writeTrajectories(folder, step, last);
  return async () => {
    await written;
    machine.take();
    machine.close();
    await writeServerSamples(folder, step, load.take());
    load.close();
  };
}

function oneRollout(step: number) {
  return rollout({
    tasks: Array.from({ length: TRAJECTORIES / 8 }, (_, index) => ({ index, task: { index } })),
    attempts: 8,
    step,
    seed: 1,
    agent: agent(async ({ model }) => {
      const chat = model.chat();
      for (let turn = 0; turn < 5; turn++) {
        chat.user(`Go on (${turn}).`);
        await chat.sample();
      }
    }),
    rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
    server,
    format,
    concurrency: TRAJECTORIES,
    limits: { turns: 8, tokensPerTrajectory: 2048 },
  });
}

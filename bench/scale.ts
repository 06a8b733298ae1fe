/**
 * What a run would use of more GPUs than were ever there, on simulated servers: 7B with a code tool, half of the GPUs sample
 * (four a server) and half train, in three modes; each step has as many trajectories to a server at every size.
 * New weights take as long to arrive as docs/scale.md computes for one sender to all. Also how many turns a second the control
 * plane must carry. Simulated, not measured: it says how a schedule behaves, not how fast a cluster is.
 *
 *   npm run bench scale [-- --quick] [--gpus 8,64,512] [--steps 12] [--only 'one step off'] [--seed 1]
 */
import { readFlags } from '../scripts/flags.ts';
import { MODELS, syncSeconds } from '../scripts/scale-page.ts';
import { atLeast, conclude } from '../scripts/verdict.ts';
import { asynchronous, type Mode, oneStepOff, synchronous } from '../src/modes/mode.ts';
import { CASES, TRAINING_ON_HALF, TRAINING_SHARE } from './schedule/cases.ts';
import { type Figures, rollOutBatch, trainInMode } from './schedule/runs.ts';

const flags = readFlags(
  {
    gpus: '8,32,128,512',
    steps: '12',
    seed: '1',
    only: 'synchronous;one step off;asynchronous, staleness 4',
  },
  { gpus: '8,32', steps: '4', only: 'synchronous;one step off' },
);
const GPUS_PER_SERVER = 4;
const TASKS_PER_SERVER = 8;
const MODES: Readonly<Record<string, Mode>> = {
  synchronous: synchronous(),
  'one step off': oneStepOff(),
  'asynchronous, staleness 4': asynchronous({ staleness: 4 }),
};

const chosen = flags.only.split(';');
const rows: Record<string, unknown>[] = [];
for (const gpus of flags.gpus.split(',').map(Number)) {
  const servers = gpus / 2 / GPUS_PER_SERVER;
  const seconds = syncSeconds(MODELS.find(({ name }) => name === '7B')!, servers).group;
  const one = {
    ...CASES.modes,
    servers,
    tasks: TASKS_PER_SERVER * servers,
    toolWorkers: (CASES.modes.toolWorkers / CASES.modes.servers) * servers,
    hardware: { ...CASES.modes.hardware, updateMs: 1000 * seconds },
  };
  const seed = Number(flags.seed);
  // The trainer's time follows from the published shares of a step, at this size.
  const alone = await rollOutBatch({ ...one, servers: 2 * servers }, { seed });
  const tokens = alone.tokensPerSecond * alone.seconds;
  const trainMsPerToken = (1000 * TRAINING_SHARE * TRAINING_ON_HALF.assumed * alone.seconds) / tokens;
  for (const name of chosen) {
    const mode = MODES[name]!;
    const began = performance.now();
    const figures = await trainInMode(one, {
      mode,
      servers,
      steps: Number(flags.steps),
      seed,
      trainMsPerToken,
    });
    rows.push({
      gpus,
      servers,
      mode: name,
      ...shown(figures, one.tasks * one.attempts, trainMsPerToken),
    });
    console.error(`${JSON.stringify(rows.at(-1))} (${((performance.now() - began) / 1000).toFixed(0)} s)`);
  }
}

function shown(figures: Figures, perStep: number, trainMsPerToken: number) {
  const { seconds, tokensPerSecond, utilisation, p99Seconds } = figures;
  const counted = Number(flags.steps) - 1; // from the end of the first step on
  const trainerBusy = (tokensPerSecond * trainMsPerToken) / 1000;
  return {
    secondsPerStep: Math.round(seconds / counted),
    tokensPerSecond: Math.round(tokensPerSecond),
    serversBusy: rounded(utilisation),
    trainerBusy: rounded(trainerBusy),
    gpusBusy: rounded((utilisation + trainerBusy) / 2),
    p99Seconds: Math.round(p99Seconds),
    trajectoriesPerSecond: rounded((perStep * counted) / seconds),
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(2));
}

const rate = (gpus: number, mode: string) =>
  rows.find((row) => row['gpus'] === gpus && row['mode'] === mode)!['tokensPerSecond'] as number;
const sizes = [...new Set(rows.map((row) => row['gpus'] as number))];
const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
conclude(
  chosen.map((mode) =>
    atLeast(
      `${mode}: tokens a second per GPU on ${most} against ${least}`,
      rate(most, mode) / rate(least, mode) / (most / least),
      0.7,
    ),
  ),
  { rows },
);

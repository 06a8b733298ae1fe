/**
 * Lag × learning rate: where training that ignores the engine's log-probs breaks, and what holds there. A transformer of
 * a few thousand random weights learns to answer with eight different capital letters: no fixed answer is best, so the
 * gradient never dies, and a run is ten seconds. The engine's weights are up to `lag` updates old.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { agent } from '../src/agent/agent.ts';
import { arrayDataset } from '../src/dataset/dataset.ts';
import { embedded } from '../src/engine/embedded.ts';
import type { InferenceServer, WeightUpdate } from '../src/inference/server.ts';
import type { TrainOptions } from '../src/options.ts';
import { reward } from '../src/reward/reward.ts';
import { train } from '../src/train.ts';
import type { Algorithm } from '../src/training/algorithm.ts';
import { grpo } from '../src/training/algorithms.ts';
import { corrections } from '../src/training/correction.ts';
import { tinyModel } from '../test/tiny-model.ts';
import { heatPanels } from './algorithm-figures.ts';

const clip: [number, number] = [0.2, 0.28];
/** `plain`: what the engine sampled is taken for the policy's own. The others use its log-probs. */
export const MODES: Readonly<Record<string, Algorithm>> = {
  plain: grpo({ clip }),
  'token weights': grpo({ clip, correction: corrections.tokenTruncated(2) }),
  'sequence weights': grpo({ clip, correction: corrections.sequenceTruncated(2) }),
  "ratio to the engine's": grpo({ clip, old: 'behaviour' }),
};

interface Sweep {
  readonly lags: readonly number[];
  readonly rates: readonly number[];
  readonly steps: number;
  readonly seeds: readonly number[];
  readonly directory: string;
  readonly keep: boolean;
  readonly say: (line: string) => void;
  readonly draw: (svg: string) => Promise<void>;
}

interface Result {
  readonly lag: number;
  readonly learningRate: number;
  readonly mode: string;
  /** Score over the last tenth of the steps, mean over seeds. */
  readonly after: number;
  /** How far the score of ten steps fell below what it had been; the worst of the seeds. */
  readonly fall: number;
}

export async function proveOffPolicy(sweep: Sweep): Promise<Result[]> {
  const results: Result[] = [];
  for (const lag of sweep.lags) {
    for (const learningRate of sweep.rates) {
      for (const mode of Object.keys(MODES)) {
        const scores = await Promise.all(
          sweep.seeds.map((seed) => scoresOf(sweep, { lag, learningRate, mode, seed })),
        );
        const smooth = scores.map((list) => windows(list, Math.max(1, Math.round(list.length / 10))));
        results.push({
          lag,
          learningRate,
          mode,
          after: mean(smooth.map((list) => list.at(-1)!)),
          fall: Math.max(...smooth.map(deepestFall)),
        });
        const { after, fall } = results.at(-1)!;
        sweep.say(
          `lag ${lag}, rate ${learningRate}, ${mode}: ${after.toFixed(2)}, fell by ${fall.toFixed(2)}`,
        );
      }
    }
  }
  const panels = Object.keys(MODES).map((name) => ({
    name,
    cells: results
      .filter(({ mode }) => mode === name)
      .map(({ lag, learningRate, after }) => ({
        row: String(lag),
        column: learningRate.toExponential(),
        value: after,
      })),
  }));
  await sweep.draw(
    heatPanels('Reward at the end, by lag of the engine and learning rate', panels, {
      rows: 'lag',
      columns: `learning rate; mean of the last tenth of ${sweep.steps} steps and of ${sweep.seeds.length} seeds`,
    }),
  );
  return results;
}

const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
const windows = (list: readonly number[], width: number) =>
  list.slice(width - 1).map((_, at) => mean(list.slice(at, at + width)));

function deepestFall(list: readonly number[]): number {
  let [best, fall] = [0, 0];
  for (const value of list) {
    best = Math.max(best, value);
    fall = Math.max(fall, best - value);
  }
  return fall;
}

const CAPITALS = /[A-Z]/g;
const LETTERS = 8;
const capitals = reward(
  'capitals',
  ({ trajectory: { text } }) => new Set(text.match(CAPITALS)).size / LETTERS,
);
const writer = agent<{ letter: string }>(async ({ task, model }) => {
  const chat = model.chat();
  chat.user(task.letter);
  await chat.sample();
});

/** Mean reward of each step. */
async function scoresOf(
  { directory, keep, steps }: Sweep,
  { lag, learningRate, mode, seed }: { lag: number; learningRate: number; mode: string; seed: number },
): Promise<number[]> {
  const name = `lag-${lag}-${learningRate}-${mode.replace(/\W+/g, '-')}-${steps}-${seed}`;
  const file = join(directory, `${name}.json`);
  if (keep && existsSync(file)) return JSON.parse(await readFile(file, 'utf8')) as number[];
  const runDir = join(directory, name);
  await rm(runDir, { recursive: true, force: true });
  const scores: number[] = [];
  for await (const { metrics } of train({
    model: await tinyModel(seed),
    runDir,
    seed,
    tasks: arrayDataset(
      Array.from({ length: 64 }, (_, i) => ({ letter: String.fromCharCode(97 + (i % 8)) })),
    ),
    agent: writer,
    rewards: [capitals],
    algorithm: MODES[mode]!,
    ...lagging(lag, 1),
    steps,
    tasksPerStep: 8,
    attemptsPerTask: 8,
    limits: { tokensPerReply: LETTERS },
    optimizer: { learningRate, beta2: 0.95, weightDecay: 0 },
    evaluation: { before: false, every: 0 },
    checkpoints: { every: 0 },
  })) {
    scores.push(metrics['critic/score/mean']!);
  }
  await mkdir(directory, { recursive: true });
  await writeFile(file, JSON.stringify(scores));
  await rm(runDir, { recursive: true, force: true });
  return scores;
}

/**
 * Servers that hold the weights of up to `lag` updates ago and take them for the newest. A run looks for just that after
 * every update and would stop, so what it looks with, the scoring of prompts, is taken from them.
 */
export function lagging(lag: number, threads?: number): Pick<TrainOptions, 'servers' | 'trainer'> {
  const plain = embedded(threads === undefined ? {} : { threads });
  if (lag === 0) return plain;
  return {
    trainer: plain.trainer,
    servers: {
      name: 'lagging',
      open: async (model) =>
        (await plain.servers.open(model)).map((server): InferenceServer => {
          const waiting: Extract<WeightUpdate, { kind: 'memory' }>[] = [];
          const update = server.update.bind(server);
          server.update = async (weights) => {
            if (weights.kind !== 'memory') throw new Error(`weights came by ${weights.kind}`);
            waiting.push({ ...weights, tensors: copyOf(weights.tensors) });
            if (waiting.length > lag + 1) waiting.shift();
            await update({ ...waiting[0]!, version: weights.version });
          };
          const info = server.info.bind(server);
          server.info = async () => {
            const told = await info();
            return { ...told, can: new Set([...told.can].filter((one) => one !== 'scorePrompt')) };
          };
          return server;
        }),
    },
  };
}

/** A trainer may publish its live memory, which the next update changes. */
function copyOf(tensors: Extract<WeightUpdate, { kind: 'memory' }>['tensors']) {
  return new Map(
    [...tensors].map(([name, { shape, data }]) => {
      if (!(data instanceof Float32Array)) throw new Error(`${name} is not float32`);
      const copy = new Float32Array(new SharedArrayBuffer(data.byteLength));
      copy.set(data);
      return [name, { shape, data: copy }];
    }),
  );
}

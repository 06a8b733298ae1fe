/** Runs of a fraction of a second that go through what a run goes through, and what they leave behind. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { agent, embedded, reward, servers, type TrainOptions, train } from 'rollcall';
import { jsonl } from 'rollcall/datasets';
import type { Dataset } from '../../src/dataset/dataset.ts';
import { verifyRun } from '../../src/watch/verify-run.ts';

type Letter = { letter: string };
export const STEPS = 2;

export interface Place {
  readonly model: string;
  /** A file of tasks. */
  readonly tasks: string;
  /** Servers for the run over HTTP. */
  readonly urls: readonly string[];
}

/** `embedded`: engine and trainer in worker threads. `http`: replies and weights go through two servers. */
export const SCENARIOS = ['embedded', 'http'] as const;
export type Scenario = (typeof SCENARIOS)[number];

export async function shortRun(
  scenario: Scenario,
  { model, tasks: file, urls }: Place,
  {
    runDir,
    resume,
    signal,
    tell = () => {},
  }: Pick<TrainOptions, 'signal'> & {
    readonly runDir: string;
    readonly resume: boolean;
    readonly tell?: (notice: string) => void;
  },
): Promise<void> {
  const tasks = (await jsonl(file)) as unknown as Dataset<Letter>;
  const here = embedded({ threads: 1, kernels: 'wasm' });
  const options: TrainOptions<Letter> = {
    model,
    runDir,
    resume,
    signal,
    tasks,
    validation: tasks,
    agent: agent<Letter>(async ({ task, model: policy }) => {
      const chat = policy.chat();
      chat.user(task.letter);
      await chat.sample();
    }),
    rewards: [
      reward<Letter>('before', ({ task, trajectory: { text } }) => {
        return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
      }),
    ],
    ...here,
    ...(scenario === 'http'
      ? {
          servers: servers({
            urls: [...urls],
            engine: 'rollcall',
            gateway: { backoffMs: 20, secondsPerRequest: 3 },
          }),
        }
      : {}),
    steps: STEPS,
    tasksPerStep: 2,
    attemptsPerTask: 2,
    limits: { tokensPerReply: 4 },
    optimizer: { learningRate: 1e-2 },
    checkpoints: { every: 1 },
    evaluation: { every: 0, limit: 1 },
    onNotice: tell,
  };
  for await (const _ of train(options));
}

/** All that must be the same again: metrics but times, sampled tokens, weights and optimizer; and that the run is sound. */
export async function outcomeOf(runDir: string): Promise<string> {
  const hash = createHash('sha256');
  const metrics = readFileSync(join(runDir, 'metrics.jsonl'), 'utf8').trim().split('\n');
  for (const line of metrics) {
    const { step, metrics: all } = JSON.parse(line) as { step: number; metrics: Record<string, number> };
    const kept = Object.entries(all).filter(([name]) => !/^(timing_s|perf)\//.test(name));
    hash.update(JSON.stringify([step, kept]));
  }
  const checkpoint = join(runDir, 'checkpoints', `global_step_${STEPS}`);
  for (const file of ['model.safetensors', 'trainer/optimizer.safetensors'])
    hash.update(readFileSync(join(checkpoint, file)));
  const folder = join(runDir, 'trajectories');
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith('.tokens'))
    .sort())
    hash.update(file).update(readFileSync(join(folder, file)));
  const parts = await verifyRun(runDir);
  const faults = parts.flatMap((part) => part.faults);
  return faults.length > 0 ? `damaged: ${faults.join('; ')}` : hash.digest('hex').slice(0, 16);
}

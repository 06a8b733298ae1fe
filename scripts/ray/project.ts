/** The quick start's short variant as a project that can be launched: a folder with a run as data, its tool and its reward. */
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { createProblems, type Problem } from '../../examples/quickstart/problems.ts';
import { RECIPES } from '../../examples/quickstart/recipe.ts';
import { LIMITS } from '../../examples/quickstart/solver.ts';

export interface ProjectOptions {
  readonly folder: string;
  readonly model: string;
  readonly seed: number;
  readonly steps: number;
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  readonly python: string;
}

const row = ({ question, answer }: Problem) =>
  JSON.stringify({
    prompt: [{ role: 'user', content: question }],
    data_source: 'quickstart',
    reward_model: { ground_truth: String(answer) },
  });

export function writeProject(options: ProjectOptions): string {
  const { folder, model, seed, steps, tasksPerStep, attemptsPerTask, python } = options;
  mkdirSync(folder, { recursive: true });
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules')); // it does not travel with a job
  for (const file of ['solver.ts', 'calculate.ts'])
    copyFileSync(join('examples/quickstart', file), join(folder, file));
  copyFileSync('scripts/ray/reward.ts', join(folder, 'reward.ts'));
  const problems = createProblems('train', seed, steps * tasksPerStep);
  writeFileSync(join(folder, 'tasks.jsonl'), `${problems.map(row).join('\n')}\n`);
  const run = {
    model,
    seed,
    tasks: { files: ['tasks.jsonl'] },
    order: { kind: 'sequential' },
    tools: { module: 'solver.ts' },
    rewards: { module: 'reward.ts', concurrency: 1 },
    algorithm: { name: 'grpo', clipLow: 0.2, clipHigh: 0.28, old: 'behaviour' },
    steps,
    tasksPerStep,
    attemptsPerTask,
    limits: LIMITS,
    optimizer: {
      learningRate: RECIPES.short.learningRate,
      schedule: 'linear',
      finalShare: 0.3,
      beta2: 0.95,
      weightDecay: 0,
      miniBatches: 2,
    },
    checkpoints: { every: 1, keep: 2 },
    servers: { engine: 'rollcall', replicas: 2 },
    trainer: { name: 'torch', options: { device: 'cpu', threads: 1, ranks: 1, python } },
    cluster: { nodes: 2 },
  };
  const file = join(folder, 'run.yaml');
  writeFileSync(file, stringify(run));
  return file;
}

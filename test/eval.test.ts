import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { command } from './command.ts';
import { tinyModel } from './tiny-model.ts';

let folder: string;
let model: string;
let config: string;

async function rollcall(...words: string[]) {
  const { status, stdout, stderr } = await command(...words);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-eval-'));
  model = await tinyModel();
  config = join(folder, 'run.ts');
  writeFileSync(
    config,
    `import { agent, arrayDataset, embedded, reward } from 'rollcall';
export const options = {
  model: ${JSON.stringify(model)},
  runDir: ${JSON.stringify(join(folder, 'run'))},
  tasks: arrayDataset([{ letter: 'm' }, { letter: 'n' }]),
  validation: arrayDataset(['k', 'l', 'm', 'n'].map((letter) => ({ letter, dataSource: letter < 'm' ? 'early' : 'late' }))),
  agent: agent(async ({ task, model }) => {
    const chat = model.chat();
    chat.user(task.letter);
    await chat.sample();
  }),
  rewards: [reward('before', ({ task, trajectory: { text } }) => Number((text[0] ?? 'z') < task.letter))],
  ...embedded({ threads: 1 }),
  steps: 3, tasksPerStep: 2, attemptsPerTask: 6, limits: { tokensPerReply: 6 }, optimizer: { learningRate: 2e-2 },
  evaluation: { before: false, every: 0 },
};
`,
  );
  await rollcall('train', config);
}, 120_000);

interface Evaluated {
  readonly sources: {
    readonly source: string;
    readonly tasks: number;
    readonly means: { readonly before: { readonly mean: number } };
    readonly atK: { readonly before: Record<string, number> };
  }[];
  readonly changes?: { readonly reward: number; readonly against: number }[];
}

test('a run is evaluated against the model it began with: by data source, at k, and task by task', async () => {
  const words = ['--attempts', '4', '--temperature', '1', '--json'];
  const { sources, changes } = JSON.parse(
    await rollcall('eval', join(folder, 'run'), '--against', model, ...words),
  ) as Evaluated;
  expect(sources.map(({ source, tasks }) => [source, tasks])).toEqual([
    ['early', 2],
    ['late', 2],
  ]);
  for (const { means, atK } of sources) {
    expect(atK.before['mean@4']).toBeCloseTo(means.before.mean, 10);
    expect(atK.before['best@4/mean']).toBeGreaterThanOrEqual(means.before.mean);
    expect(atK.before['pass@4']).toBeGreaterThanOrEqual(atK.before['pass@2']!);
  }
  for (const { reward, against } of changes!) expect(reward).not.toBe(against);
}, 90_000);

test('a server at a URL gives the evaluation of the engine in this process', async () => {
  const greedy = ['--config', config, '--json'];
  const here = JSON.parse(await rollcall('eval', model, ...greedy)) as Evaluated;
  const port = 20_000 + (process.pid % 20_000);
  const server = spawn(
    process.execPath,
    ['bin/rollcall.js', 'serve', '--model', model, '--port', String(port)],
    {
      stdio: 'ignore',
    },
  );
  try {
    const there = JSON.parse(
      await rollcall('eval', model, ...greedy, '--url', `http://127.0.0.1:${port}`),
    ) as Evaluated;
    expect(there.sources.map(({ means }) => means)).toEqual(here.sources.map(({ means }) => means));
  } finally {
    server.kill('SIGTERM');
  }
}, 90_000);

test('stored trajectories are scored again with other rewards, and nothing is generated', async () => {
  const other = join(folder, 'other.ts');
  writeFileSync(
    other,
    readFileSync(config, 'utf8').replace(/reward\('before'.*?\)\]/s, "reward('always', () => 1)]"),
  );
  const lines = (await rollcall('score', join(folder, 'run'), '--config', other, '--json'))
    .trim()
    .split('\n');
  const scores = lines.map((line) => JSON.parse(line) as { reward: number; rewards: Record<string, number> });
  expect(scores).toHaveLength(3 * 2 * 6);
  expect(scores.every(({ reward, rewards }) => reward === 1 && rewards['always'] === 1)).toBe(true);
}, 60_000);

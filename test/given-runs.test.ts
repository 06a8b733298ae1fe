/** Every command takes a run as data: YAML, overrides, a script, and runs that were made from them. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { main } from '../src/cli/main.ts';
import { tinyModel } from './tiny-model.ts';

let folder: string;
let run: string;

/** The command line in this process; what it prints, and its exit code. */
async function rollcall(...words: string[]) {
  const printed: string[] = [];
  const take = (...given: unknown[]) => void printed.push(given.join(' '));
  const spies = [vi.spyOn(console, 'log'), vi.spyOn(console, 'error')].map((spy) =>
    spy.mockImplementation(take),
  );
  const stderr = vi
    .spyOn(process.stderr, 'write')
    .mockImplementation((text) => Boolean(printed.push(String(text))));
  const directory = process.cwd();
  try {
    await main(words);
    return { code: process.exitCode ?? 0, text: printed.join('\n') };
  } finally {
    process.exitCode = 0;
    process.chdir(directory); // commands on a recorded run go to its directory
    for (const spy of [...spies, stderr]) spy.mockRestore();
  }
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-given-'));
  run = join(folder, 'run');
  const row = (n: number) => ({
    data_source: 'openai/gsm8k',
    prompt: [{ role: 'user', content: `What is ${n} plus ${n}?` }],
    reward_model: { ground_truth: String(2 * n) },
  });
  const rows = [1, 2, 3].map((n) => JSON.stringify(row(n))).join('\n');
  writeFileSync(join(folder, 'tasks.jsonl'), rows);
  writeFileSync(
    join(folder, 'run.yaml'),
    `model: ${await tinyModel()}
tasks: { files: [tasks.jsonl] }
validation: { files: [tasks.jsonl] }
tools: { names: [calculator] }
steps: 1
tasksPerStep: 2
attemptsPerTask: 2
limits: { tokensPerReply: 12, tokensPerTrajectory: 48, turns: 2 }
evaluation: { before: false }
trainer: { options: { threads: 1 } }
`,
  );
  const trained = await rollcall('train', join(folder, 'run.yaml'), `runDir=${run}`);
  expect(trained).toMatchObject({ code: 0, text: expect.stringContaining('step 1/1') });
}, 120_000);

test('preview takes YAML and overrides', async () => {
  const { code, text } = await rollcall(
    'preview',
    join(folder, 'run.yaml'),
    'limits.tokensPerReply=3',
    '--attempts',
    '1',
  );
  expect(code).toBe(0);
  expect(text).toMatch(/What is 1 plus 1\?/);
  expect(text).toMatch(/, 3 sampled, 3 trained/);
}, 60_000);

test('eval, score and fork open a run that was made from YAML, from another directory, with overrides', async () => {
  const evaluated = await rollcall('eval', run, 'limits.tokensPerReply=2', '--tasks', '2', '--json');
  expect(evaluated.code).toBe(0);
  const { sources } = JSON.parse(evaluated.text.split('\n').find((line) => line.startsWith('{'))!) as {
    sources: { tasks: number; rollout: Record<string, number> }[];
  };
  expect(sources[0]!.tasks).toBe(2);
  expect(sources[0]!.rollout['response_length/mean']).toBeLessThanOrEqual(4);

  // Another reward: whatever the reply, the module gives 0.25.
  writeFileSync(join(folder, 'reward.mjs'), 'export const compute_score = () => 0.25;\n');
  const scored = await rollcall('score', run, `rewards.module=${join(folder, 'reward.mjs')}`);
  expect(scored.text).toContain('step 1  4 trajectories  reward 0.250, was 0.000');

  const [line] = readFileSync(join(run, 'trajectories/step_1.jsonl'), 'utf8').split('\n');
  const { taskIndex } = JSON.parse(line!) as { taskIndex: number };
  const forked = await rollcall(
    'fork',
    run,
    '1',
    String(taskIndex),
    '0',
    '--turn',
    '1',
    '--attempts',
    '1',
    '--json',
  );
  expect(forked.code).toBe(0);
  expect(readdirSync(join(run, 'forks'))).toHaveLength(1);
}, 60_000);

test('the file of a run stands for its model, or for its run directory', async () => {
  const file = join(folder, 'run.yaml');
  const few = ['limits.tokensPerReply=2', '--tasks', '1'];
  const evaluated = await rollcall('eval', file, ...few, '--json');
  expect(evaluated).toMatchObject({ code: 0, text: expect.stringContaining('"tasks":1') });
  const scored = await rollcall('score', file, `runDir=${run}`);
  expect(scored.text).toContain('step 1  4 trajectories  reward 0.000, was 0.000');
  const never = await rollcall('score', file, `runDir=${join(folder, 'never')}`);
  expect(never).toMatchObject({ code: 1, text: expect.stringContaining('never has no trajectories') });
}, 60_000);

test('chat offers the tools of a run that was made from YAML', async () => {
  // The end of standard input ends the conversation at once.
  const { Readable } = await import('node:stream');
  const input = vi
    .spyOn(process, 'stdin', 'get')
    .mockImplementation(() => Object.assign(Readable.from([]), { isTTY: false, fd: 0 }) as never);
  onTestFinished(() => input.mockRestore());
  expect((await rollcall('chat', run)).text).toContain('tools: calculator');
  expect((await rollcall('chat', join(folder, 'run.yaml'))).text).toContain('tools: calculator');
}, 60_000);

test('sft takes demonstrations, YAML and overrides, and names what it does not read', async () => {
  const demonstrations = join(folder, 'demonstrations.jsonl');
  const messages = [
    { role: 'user', content: '1+1' },
    { role: 'assistant', content: '2' },
  ];
  writeFileSync(demonstrations, JSON.stringify({ messages }));
  const words = [
    'sft',
    demonstrations,
    join(folder, 'run.yaml'),
    `runDir=${join(folder, 'warm')}`,
    'steps=2',
  ];
  const { code, text } = await rollcall(...words, 'optimizer.learningRate=1e-3');
  expect(code).toBe(0);
  expect(text).toContain('step 2/2');
  expect(text).toMatch(/sft does not read .*limits.turns/);
}, 60_000);

test('a script of verl’s and Hydra’s flags name the same run', async () => {
  const config = join(folder, 'config');
  mkdirSync(config);
  writeFileSync(join(config, 'base.yaml'), 'hydra: {searchpath: [x]}\ndata: {train_batch_size: 8}\n');
  const script = join(folder, 'run.sh');
  writeFileSync(
    script,
    `N=4
python3 -m verl.trainer.main_ppo --config-path="${config}" --config-name='base' \\
  actor_rollout_ref.rollout.n=$N trainer.total_epochs=3 $@
`,
  );
  const dry = async (...words: string[]) => {
    const { text } = await rollcall('train', ...words, '--dry-run');
    return JSON.parse(text.slice(text.indexOf('\n{') + 1)) as Record<string, unknown>;
  };
  const wanted = { tasksPerStep: 8, attemptsPerTask: 4, epochs: 2 };
  expect(await dry(script, 'trainer.total_epochs=2')).toMatchObject(wanted);
  const flags = ['--config-path', config, '--config-name', 'base'];
  expect(await dry(...flags, '+actor_rollout_ref.rollout.n=4', '++trainer.total_epochs=2')).toMatchObject(
    wanted,
  );
  expect(await dry(...flags, '~data.train_batch_size')).toMatchObject({ tasksPerStep: 32 });
  const refused = await rollcall('train', '--multirun', 'seed=1,2');
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('once for each combination') });
});

/** Simulated users, ready rewards and shaping from a run as data, up to the moment before it starts. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { assembleRun } from '../src/options/assemble.ts';
import { resolveRun } from '../src/options/resolve-run.ts';
import { tinyModel } from './tiny-model.ts';

async function assemble(rows: readonly object[], ...more: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-described-'));
  writeFileSync(join(folder, 'tasks.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  writeFileSync(join(folder, 'users.yaml'), 'interaction: [{class_name: Gsm8kInteraction}]\n');
  const { options } = await resolveRun({
    overrides: [
      `actor_rollout_ref.model.path=${await tinyModel()}`,
      `data.train_files=${join(folder, 'tasks.jsonl')}`,
      `actor_rollout_ref.rollout.multi_turn.interaction_config_path=${join(folder, 'users.yaml')}`,
      `trainer.default_local_dir=${join(folder, 'run')}`,
      ...more,
    ],
  });
  return assembleRun(options, { directory: folder, warn: () => {} });
}

const row = (dataSource: string, user: string) => ({
  data_source: dataSource,
  prompt: [{ role: 'user', content: 'What is 3 plus 4?' }],
  reward_model: { ground_truth: '7' },
  extra_info: { interaction_kwargs: { name: user, ground_truth: '7' } },
});

test('a described run has its user, its reward by data source and its shaping', {
  timeout: 120_000,
}, async () => {
  const run = await assemble([row('openai/gsm8k', 'gsm8k')], 'reward_shaping.enable=True');
  expect(run.options.rewards.map(({ name }) => name)).toEqual(['score', 'shaping']);
  await run.close();
  const plain = await assemble([row('openai/gsm8k', 'gsm8k')], 'reward_shaping.enable=False');
  expect(plain.options.rewards.map(({ name }) => name)).toEqual(['score']);
  await plain.close();
});

test('tools that are only named are the ready ones; a row that offers a tool the run has not is an error', {
  timeout: 120_000,
}, async () => {
  const offering = (...tools: string[]) => ({ ...row('openai/gsm8k', 'gsm8k'), tools });
  const rows = [offering('geometry_calculator', 'angle_solver'), offering('angle_solver')];
  const names = 'tools.names=[geometry_calculator,angle_solver,calculator]';
  const run = await assemble(rows, names);
  expect(run.options.agent.tools.map(({ name }) => name)).toEqual([
    'geometry_calculator',
    'angle_solver',
    'calculator',
  ]);
  await run.close();
  await expect(assemble(rows)).rejects.toThrow(
    /row 0.*: the row offers the tool geometry_calculator, angle_solver, which the run does not have; it has none.*name geometry_calculator, angle_solver in tools.names/,
  );
  await expect(assemble(rows, 'tools.names=[angel_solver]')).rejects.toThrow('there is no tool angel_solver');
});

test('a row anywhere that nobody can answer or score is an error before the start', {
  timeout: 120_000,
}, async () => {
  const good = row('openai/gsm8k', 'gsm8k');
  await expect(assemble([good, row('openai/gsm8k', 'gsm9k')])).rejects.toThrow("no simulated user 'gsm9k'");
  await expect(assemble([good, row('my/data', 'gsm8k')])).rejects.toThrow(
    "nothing scores the data source 'my/data'",
  );
});

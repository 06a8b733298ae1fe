/** What is wrong with a row or a tool is known before the first step, with the file and the row. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { arrayDataset } from '../../src/dataset/dataset.ts';
import { createSampler } from '../../src/dataset/sampler.ts';
import { assembleRun } from '../../src/options/assemble.ts';
import { checkRows } from '../../src/options/check-rows.ts';
import { resolveRun } from '../../src/options/resolve-run.ts';
import { taskRow } from '../../src/verl/task-row.ts';
import { tinyModel } from '../tiny-model.ts';

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

async function assemble(rows: readonly object[], ...more: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-rows-'));
  writeFileSync(join(folder, 'tasks.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  const files = `data.train_files=${join(folder, 'tasks.jsonl')}`;
  const { options } = await resolveRun({ overrides: [`model=${model}`, files, ...more] });
  return assembleRun(options, { directory: folder, warn: () => {} });
}

const row = (more: object = {}, info: object = {}) => ({
  data_source: 'openai/gsm8k',
  prompt: [{ role: 'user', content: 'What is 3 plus 4?' }],
  reward_model: { ground_truth: '7' },
  extra_info: info,
  ...more,
});
const kwargs = { tools_kwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: '7' } } } };
const GSM8K = 'tools.names=[calc_gsm8k_reward]';

test('a row with tool arguments is refused where no agent offers that tool', async () => {
  await expect(assemble([row(), row({}, kwargs)])).rejects.toThrow(
    /tasks.jsonl:2 .row 1.*: the row has tools_kwargs for the tool calc_gsm8k_reward, which the run does not have; it has none. Give tools.file/,
  );
  await expect(assemble([row({}, kwargs)], GSM8K, 'agent.default=single_turn_agent')).rejects.toThrow(
    /row 0.*its agent, single_turn_agent, offers no tools; set the row's agent_name to tool_agent/,
  );
  await (await assemble([row({}, kwargs)], GSM8K)).close();
});

test('a row without what the tool compares with is refused, and so is one for an agent or user that does not exist', async () => {
  await expect(assemble([row({}, kwargs), row()], GSM8K)).rejects.toThrow(
    /row 1.*: the tool calc_gsm8k_reward compares answers with .*create_kwargs.ground_truth, which the row does not have/,
  );
  await expect(assemble([row({ agent_name: 'tool_agnet' })])).rejects.toThrow(
    /row 0.*there is no agent 'tool_agnet'; did you mean tool_agent/,
  );
  await expect(assemble([row({}, { interaction_kwargs: { name: 'gsm8k' } })])).rejects.toThrow(
    /row 0.*the simulated user 'gsm8k', but the run has none; give users.file/,
  );
  await expect(assemble([row(), row({ reward_model: {} })])).rejects.toThrow(
    /tasks.jsonl:2 .row 1.*no reward_model.ground_truth/,
  );
});

test('an image that is not there is known before the start', async () => {
  const shown = row({ prompt: [{ role: 'user', content: '<image>What?' }], images: ['/nowhere/a.png'] });
  await expect(assemble([row(), shown])).rejects.toThrow(/row 1.*the image \/nowhere\/a.png cannot be read/);
});

test('of a huge dataset some rows are checked, evenly spread, and counted', async () => {
  const seen: number[] = [];
  const rows = arrayDataset(Array.from({ length: 1000 }, (_, at) => ({ ...taskRow(row()), difficulty: at })));
  expect(await checkRows(rows, ({ difficulty }) => seen.push(difficulty!), 10)).toBe(10);
  expect(seen).toEqual([0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
});

test('difficulty is read from a column of the row or from extra_info', async () => {
  const rows = [row({ difficulty: 3 }), row({}, { difficulty: '1' }), row({ difficulty: 2 })];
  const order = ['order.kind=difficulty', 'order.column=difficulty'];
  const { options, close } = await assemble(rows, ...order);
  const sampler = await createSampler(options.tasks, options.order!, 1);
  expect(sampler.next(3)).toEqual([1, 2, 0]);
  await close();
  await expect(assemble([row()], ...order)).rejects.toThrow(
    /row 0.*column difficulty is no number, in the row or in extra_info/,
  );
});

/** The chat format of a run as data: from its settings to the prompts that are counted. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BYTE_TEMPLATE } from 'rollcall/testing';
import { beforeAll, expect, test } from 'vitest';
import { assembleRun } from '../src/options/assemble.ts';
import { resolveRun } from '../src/options/resolve-run.ts';
import { tinyModel } from './tiny-model.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-chat-'));
const template = `{{ greeting or '${'Hello. '.repeat(20)}' }}${BYTE_TEMPLATE}`;
let model: string;
beforeAll(async () => {
  model = await tinyModel();
  writeFileSync(join(folder, 'template.jinja'), template);
}, 60_000);

async function assemble(content: string, ...more: readonly string[]) {
  const row = {
    data_source: 'openai/gsm8k',
    prompt: [{ role: 'user', content }],
    reward_model: { ground_truth: '7' },
  };
  writeFileSync(join(folder, 'tasks.jsonl'), JSON.stringify(row));
  const { options, missing } = await resolveRun({
    overrides: [`model=${model}`, `tasks.files=[${join(folder, 'tasks.jsonl')}]`, ...more],
  });
  expect(missing).toEqual([]);
  const run = await assembleRun(options, { directory: folder, warn: () => {} });
  await run.close();
  return run.options;
}

const own = () => `chat.template=${join(folder, 'template.jinja')}`;
const most = (tokens: number) => `tasks.maxPromptTokens=${tokens}`;

test('a template is read from its file', { timeout: 60_000 }, async () => {
  expect((await assemble('3 + 4?', own())).chat).toMatchObject({ template });
  expect((await assemble('3 + 4?')).chat).not.toHaveProperty('template');
});

test('prompts are counted with the template and the variables that the run uses', {
  timeout: 60_000,
}, async () => {
  await assemble('3 + 4?', most(100));
  await expect(assemble('3 + 4?', most(100), own())).rejects.toThrow(
    /the prompt has \d+ tokens, the limit is 100/,
  );
  await assemble('3 + 4?', most(100), own(), 'chat.templateOptions={greeting: Hi}');
});

test('prompts are counted as trustPrompt reads them', { timeout: 60_000 }, async () => {
  const forged = '<|im_end|>'.repeat(20);
  await expect(assemble(forged, most(100))).rejects.toThrow(/the prompt has \d+ tokens, the limit is 100/);
  await assemble(forged, most(100), 'trustPrompt=true');
});

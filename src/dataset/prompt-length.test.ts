import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import type { ToolSchema } from '../types.ts';
import { taskRow } from '../verl/task-row.ts';
import { arrayDataset } from './dataset.ts';
import { limitPrompts } from './prompt-length.ts';
import type { CountTokens } from './token-counter.ts';

/** A token a character, ten a tool. */
const count: CountTokens = (messages, tools) =>
  messages.reduce((sum, { content }) => sum + (typeof content === 'string' ? content.length : 0), 0) +
  10 * tools.length;

const dataset = (...texts: string[]) =>
  arrayDataset(
    texts.map((text) => ({
      prompt: [
        { role: 'system', content: 'sys' },
        { role: 'user', content: text },
      ],
    })),
    'train.parquet',
  ).map((row) => taskRow(row));
const promptsOf = async (limited: Awaited<ReturnType<typeof limitPrompts>>) => {
  const texts: unknown[] = [];
  for await (const { row } of limited.rows()) texts.push(row.prompt.at(-1)?.content);
  return texts;
};
const add = {
  type: 'function',
  function: { name: 'add', description: '', parameters: {} },
} as const satisfies ToolSchema;

test('filter leaves out prompts that are too long, tool schemas counted', async () => {
  const given = dataset('0123456', '012345678');
  const limits = { maxTokens: 10, tooLong: 'filter', count } as const;
  expect(await promptsOf(await limitPrompts(given, limits))).toEqual(['0123456']);
  expect((await limitPrompts(given, { ...limits, toolsOf: () => [add] })).length).toBe(0);
});

test.each([
  ['left', '3456789'],
  ['right', '0123456'],
  ['middle', '0123789'],
] as const)('%s cuts the last user message to the most that fits', async (tooLong, kept) => {
  const limited = await limitPrompts(dataset('0123456789', 'ok'), { maxTokens: 10, tooLong, count });
  expect(await promptsOf(limited)).toEqual([kept, 'ok']);
});

test('error names the first prompt that is too long, with both numbers', async () => {
  await expect(
    limitPrompts(dataset('ok', '0123456789'), { maxTokens: 10, tooLong: 'error', count }),
  ).rejects.toThrow('train.parquet, row 1: the prompt has 13 tokens, the limit is 10');
  await expect(
    limitPrompts(dataset('x'.repeat(9)), { maxTokens: 2, tooLong: 'left', count }),
  ).rejects.toThrow('over 2 tokens even without the text');
});

test('a module counts in worker threads, with progress, to the same result', async () => {
  const module = join(mkdtempSync(join(tmpdir(), 'rollcall-count-')), 'count.ts');
  writeFileSync(
    module,
    `export function perCharacter({ each }: { each: number }) {
       return (messages: { content: string }[]) => messages.reduce((sum, m) => sum + each * m.content.length, 0);
     }`,
  );
  const texts = Array.from({ length: 200 }, (_, n) => 'x'.repeat(n));
  const progress: number[] = [];
  const counter = { module: pathToFileURL(module).href, name: 'perCharacter', argument: { each: 2 } };
  const limited = await limitPrompts(dataset(...texts), {
    maxTokens: 106,
    tooLong: 'filter',
    count: counter,
    workers: 2,
    onProgress: (done) => progress.push(done),
  });
  expect(limited.length).toBe(51); // 2 · (3 + n) <= 106
  expect(progress.at(-1)).toBe(200);
  expect(progress).toEqual([...progress].sort((a, b) => a - b));
  await expect(
    limitPrompts(dataset('x'), {
      maxTokens: 1,
      tooLong: 'filter',
      count: { ...counter, name: 'perWord' },
      workers: 1,
    }),
  ).rejects.toThrow(/#perWord failed: there is no function perWord/);
});

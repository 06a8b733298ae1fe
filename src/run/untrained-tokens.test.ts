import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { byteModel, writeByteModel } from 'rollcall/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readTensors } from '../engine/model/files.ts';
import { readTokenTables, writeTokenRows } from '../engine/model/token-rows.ts';
import { callTokens, mendTokens, untrainedTokens, untrainedTokensNotice } from './untrained-tokens.ts';

const { format } = byteModel();
const [OPEN, CLOSE] = [259, 260];
let folder: string;
let model: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-untrained-'));
  model = join(folder, 'model');
  await writeByteModel(model);
});
afterAll(() => rm(folder, { recursive: true }));

/** A copy of the model in which both call tokens have the row of the first. */
async function withUntrainedTags(): Promise<string> {
  const copy = join(folder, 'untrained');
  await writeByteModel(copy);
  readTokenTables(copy, ({ name }, row) => ({ name, rows: new Map([[CLOSE, row(OPEN)]]) })).forEach(
    ({ name, rows }) => {
      writeTokenRows(copy, name, rows);
    },
  );
  return copy;
}

test('the call tokens of a format are its added tokens inside a call, with the tokens that spell them', () => {
  expect(callTokens(format).map(({ id, text }) => [id, text])).toEqual([
    [OPEN, '<tool_call>'],
    [CLOSE, '</tool_call>'],
  ]);
  expect([...callTokens(format)[0]!.spelling]).toEqual([...Buffer.from('<tool_call>')]);
});

test('rows of their own are trained', () => {
  expect(untrainedTokens(model, format)).toEqual([]);
  expect(untrainedTokensNotice(model, format)).toBeUndefined();
});

test('call tokens that share a row are found, named, and given the mean row of their spelling', async () => {
  const untrained = await withUntrainedTags();
  expect(untrainedTokensNotice(untrained, format)).toMatch(
    /<tool_call> and <\/tool_call> were never trained/,
  );
  const out = join(folder, 'mended');
  expect(mendTokens(untrained, out, format).map(({ id }) => id)).toEqual([OPEN, CLOSE]);
  expect(untrainedTokens(out, format)).toEqual([]);

  const read = (path: string) =>
    readTensors(join(path, 'model.safetensors')).tensors.find(
      ({ name }) => name === 'model.embed_tokens.weight',
    )!;
  const [before, after] = [read(untrained), read(out)];
  const width = before.shape[1]!;
  const bytes = [...Buffer.from('</tool_call>')];
  for (let column = 0; column < width; column++) {
    const mean = bytes.reduce((sum, byte) => sum + before.data[byte * width + column]!, 0) / bytes.length;
    expect(after.data[CLOSE * width + column]).toBeCloseTo(mean, 6);
  }
  const differing = before.data.findIndex((value, at) => value !== after.data[at]);
  expect(Math.floor(differing / width)).toBe(OPEN);
  expect(after.data.subarray((CLOSE + 1) * width)).toEqual(before.data.subarray((CLOSE + 1) * width));
});

test('a folder that exists is not overwritten', () => {
  expect(() => mendTokens(model, model, format)).toThrow(/exists; name a folder that does not/);
});

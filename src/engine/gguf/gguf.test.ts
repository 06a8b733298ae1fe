import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createTokenizer } from '../../chat/tokenizer.ts';
import { ConfigError } from '../../errors.ts';
import { openKernels } from '../kernels/open.ts';
import { readJson, readTensors } from '../model/files.ts';
import { inspectModel } from '../model/inspect.ts';
import { TrainingEngine } from '../training/training-engine.ts';
import { BLOCK_TYPES } from './blocks.ts';
import { convertGguf } from './convert.ts';
import { GgufFile } from './file.ts';

const GOLDEN = 'test/golden/gguf';
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-gguf-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

test("every block type gives the numbers that PyPI's gguf reads, to the bit", () => {
  const file = new GgufFile(join(GOLDEN, 'blocks.gguf'));
  try {
    const names = [...file.tensors.keys()].filter((name) => !name.endsWith('.expected'));
    expect(new Set([...names, 'F32'])).toEqual(new Set([...BLOCK_TYPES.values()].map(({ name }) => name)));
    for (const name of names) expect(file.read(name), name).toEqual(file.read(`${name}.expected`));
  } finally {
    file.close();
  }
});

test('a Llama has the weights that transformers reads from its file, and its tokenizer', () => {
  const model = join(directory, 'model');
  convertGguf(join(GOLDEN, 'llama.gguf'), model, { precision: 'float32' });
  const expected = new Map(readTensors(join(GOLDEN, 'llama.safetensors')).tensors.map((t) => [t.name, t]));
  const { tensors } = readTensors(join(model, 'model.safetensors'));
  expect(new Set(tensors.map(({ name }) => name))).toEqual(new Set(expected.keys()));
  for (const { name, data } of tensors) expect(data, name).toEqual(expected.get(name)!.data);
  expect(inspectModel(model)).toMatchObject({
    family: 'llama',
    heads: 4,
    kvHeads: 2,
    ropeBase: 5000,
    tied: true,
  });

  const tokenizer = createTokenizer(
    readJson(join(model, 'tokenizer.json')),
    readJson(join(model, 'tokenizer_config.json')),
  );
  const { text, ids } = readJson(join(GOLDEN, 'llama.json')) as { text: string; ids: number[] };
  expect([...tokenizer.encode(text)]).toEqual(ids);
  // SmolLM cuts digits one by one, so that the merge of 1 and 2 is never made: two letters of bytes after two added tokens.
  expect([...tokenizer.encode('12')]).toEqual([2 + 0x31, 2 + 0x32]);
  expect(tokenizer.eosId).toBe(1);
});

test('a Gemma 3 scores as transformers scores it from its file, and its SentencePiece tokenizer falls back to bytes', async () => {
  const model = join(directory, 'model');
  convertGguf(join(GOLDEN, 'gemma.gguf'), model, { precision: 'float32' });
  expect(inspectModel(model)).toMatchObject({
    family: 'gemma3_text',
    headSize: 32,
    window: 16,
    windowLayers: 2,
  });
  const { ids, logprobs } = readJson(join(GOLDEN, 'gemma.json')) as { ids: number[]; logprobs: number[] };
  const kernels = await openKernels({ threads: 1, log: () => {} });
  const engine = new TrainingEngine(kernels, { model, trainable: false });
  const row = { ids: Int32Array.from(ids), targets: Uint8Array.from(ids, (_, at) => Number(at > 0)) };
  const { logprob } = engine.score([row], { temperature: 1, outputs: ['logprob'] });
  engine.close();
  await kernels.close();
  for (const [at, expected] of logprobs.entries()) {
    expect(Math.abs(logprob![0]![at + 1]! - expected)).toBeLessThan(1e-5 * Math.abs(expected));
  }

  const tokenizer = createTokenizer(
    readJson(join(model, 'tokenizer.json')),
    readJson(join(model, 'tokenizer_config.json')),
  );
  const { vocab } = (readJson(join(model, 'tokenizer.json')) as { model: { vocab: Record<string, number> } })
    .model;
  const pieces = (text: string) =>
    [...tokenizer.encode(text)].map((id) => Object.keys(vocab).find((token) => vocab[token] === id));
  // By falling scores: "he", "▁t", "▁the"; "in", "▁l", "ine".
  expect(pieces('<bos> the lines')).toEqual(['<bos>', '▁the', '▁l', 'ine', 's']);
  expect(pieces('é12')).toEqual(['<0xC3>', '<0xA9>', '12']);
  expect(tokenizer.decode(tokenizer.encode(' the é lines'))).toBe(' the é lines');
});

test('bfloat16 halves the file', () => {
  const model = join(directory, 'model');
  convertGguf(join(GOLDEN, 'llama.gguf'), model, { precision: 'bfloat16' });
  expect(inspectModel(model)).toMatchObject({ precision: 'BF16' });
  expect(() => convertGguf(join(GOLDEN, 'llama.gguf'), model, { precision: 'bfloat16' })).toThrow(
    /already holds a model/,
  );
});

test('a file that is not whole or lies is refused by name, whatever byte is wrong', () => {
  const bytes = readFileSync(join(GOLDEN, 'llama.gguf'));
  const path = join(directory, 'bad.gguf');
  const open = (content: Uint8Array) => {
    writeFileSync(path, content);
    const file = new GgufFile(path);
    try {
      for (const name of file.tensors.keys()) file.read(name);
    } finally {
      file.close();
    }
  };
  expect(() => open(bytes.subarray(0, 20))).toThrow(/bad\.gguf: not a GGUF file/);
  expect(() => open(bytes.subarray(0, bytes.length - 1000))).toThrow(/truncated: tensor .* ends at byte/);
  const header = bytes.indexOf('blk.0.attn_q.weight') + 400;
  fc.assert(
    fc.property(fc.nat(header), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const changed = Uint8Array.from(bytes);
      changed[at]! ^= flip;
      try {
        open(changed);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
      }
    }),
    { numRuns: 300 },
  );
});

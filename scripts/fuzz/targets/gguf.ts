import { GgufFile } from '../../../src/engine/gguf/file.ts';
import { tokenizerFiles } from '../../../src/engine/gguf/tokenizer.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('x.gguf');
const [U32, STRING, LIST] = [4, 8, 9];

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number) => Buffer.concat([u32(value), u32(0)]);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const list = (type: number, items: readonly Buffer[]) =>
  Buffer.concat([u32(LIST), u32(type), u64(items.length), ...items]);

/** A file with one tensor of each type in `types`, 32 numbers each. */
function fileOf(
  metadata: Readonly<Record<string, Buffer>>,
  types: readonly (readonly [number, number])[],
): Buffer {
  let offset = 0;
  const described = types.map(([type, bytes], at) => {
    const place = u64(offset);
    offset += Math.ceil(bytes / 32) * 32;
    return Buffer.concat([text(`t${at}`), u32(1), u64(32), u32(type), place]);
  });
  const entries = Object.entries(metadata).map(([name, value]) => Buffer.concat([text(name), value]));
  const counts = [u64(types.length), u64(entries.length)];
  const head = Buffer.concat([Buffer.from('GGUF'), u32(3), ...counts, ...entries, ...described]);
  return Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), Buffer.alloc(offset)]);
}

const words = ['a', 'b', 'ab', '<|end|>'].map(text);
const tokenizer = {
  'tokenizer.ggml.model': Buffer.concat([u32(STRING), text('gpt2')]),
  'tokenizer.ggml.pre': Buffer.concat([u32(STRING), text('qwen2')]),
  'tokenizer.ggml.tokens': list(STRING, words),
  'tokenizer.ggml.token_type': list(5, [1, 1, 1, 3].map(u32)),
  'tokenizer.ggml.merges': list(STRING, [text('a b')]),
  'tokenizer.ggml.eos_token_id': Buffer.concat([u32(U32), u32(3)]),
};

/** A GGUF file: its metadata, its tokenizer and every tensor. */
export const target: FuzzTarget = {
  name: 'gguf',
  seeds: () => [
    fileOf({}, [
      [0, 128],
      [1, 64],
    ]),
    fileOf(tokenizer, [
      [8, 34],
      [2, 18],
    ]),
  ],
  words: [
    'GGUF',
    'general.alignment',
    'tokenizer.ggml.',
    '\xff\xff\xff\xff\xff\xff\x1f\x00',
    '\x09\x00\x00\x00',
  ],
  run: (bytes) => {
    const file = new GgufFile(write(bytes));
    try {
      for (const name of file.tensors.keys()) file.read(name);
      tokenizerFiles(file);
    } finally {
      file.close();
    }
  },
};

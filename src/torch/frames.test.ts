import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { encodeFrame, type Frame, FrameReader, type WireArray } from './frames.ts';

/** Written byte by byte by make.py beside them; the Python side reads the same files. */
const FIXTURES = 'test/data/torch-protocol';

interface Said {
  readonly header: Record<string, unknown>;
  readonly arrays: Record<string, { type: 'i32' | 'u8' | 'f32'; shape: number[]; values: number[] }>;
  readonly refused?: string;
}

const names = readdirSync(FIXTURES)
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.slice(0, -'.json'.length));
const bytesOf = (name: string) => new Uint8Array(readFileSync(join(FIXTURES, `${name}.bin`)));
const saidOf = (name: string) => JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8')) as Said;

const ARRAYS = { i32: Int32Array, u8: Uint8Array, f32: Float32Array };

function frameOf({ header, arrays }: Said): Frame {
  const entries = Object.entries(arrays).map(([name, { type, shape, values }]): [string, WireArray] => [
    name,
    { shape, data: ARRAYS[type].from(values) },
  ]);
  return { header, arrays: new Map(entries) };
}

test.each(names.filter((name) => !saidOf(name).refused))(
  'fixture %s is read as it says, in one piece or byte by byte, and written with the same bytes',
  (name) => {
    const bytes = bytesOf(name);
    const expected = frameOf(saidOf(name));
    expect(new FrameReader().push(bytes)).toEqual([expected]);
    const reader = new FrameReader();
    expect([...bytes].flatMap((byte) => reader.push(Uint8Array.of(byte)))).toEqual([expected]);
    expect(new FrameReader().push(Buffer.concat([bytes, bytes]))).toEqual([expected, expected]);
    expect(new Uint8Array(Buffer.concat(encodeFrame(expected)))).toEqual(bytes);
  },
);

test.each(names.filter((name) => saidOf(name).refused))('fixture %s is refused in words', (name) => {
  expect(() => new FrameReader().push(bytesOf(name))).toThrow(saidOf(name).refused!);
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConfigError } from '../errors.ts';
import { FileSet, readTensors } from './model/files.ts';
import { decodeTensor } from './safetensors.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'rollcall-safetensors-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** A file made by hand, not by the writer under test. */
function file(header: unknown, data: Uint8Array | number = 0, length?: number): string {
  const text = typeof header === 'string' ? header : JSON.stringify(header);
  const json = new TextEncoder().encode(text);
  const prefix = new Uint8Array(8);
  new DataView(prefix.buffer).setBigUint64(0, BigInt(length ?? json.length), true);
  const path = join(directory, 'made.safetensors');
  writeFileSync(path, Buffer.concat([prefix, json, typeof data === 'number' ? new Uint8Array(data) : data]));
  return path;
}

function emptyFile(): string {
  const path = join(directory, 'made.safetensors');
  writeFileSync(path, '');
  return path;
}

const entry = (dtype: string, shape: readonly number[], begin: number, end: number) => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

describe('what is well formed', () => {
  test('F32, F16 and BF16 are read as the numbers their bits mean', () => {
    const f32 = new Uint8Array(new Float32Array([1.5, -2.25]).buffer);
    // 1.0, -2.0, 65504 (the largest), 2^-24 (the smallest), in IEEE half precision
    const f16 = new Uint8Array(new Uint16Array([0x3c00, 0xc000, 0x7bff, 0x0001]).buffer);
    const bf16 = new Uint8Array(new Uint16Array([0x3f80, 0xc049]).buffer); // 1.0, -3.140625
    const path = file(
      {
        b: entry('F16', [2, 2], 8, 16),
        a: entry('F32', [2], 0, 8),
        c: entry('BF16', [2], 16, 20),
        __metadata__: { format: 'pt' },
      },
      Buffer.concat([f32, f16, bf16]),
    );
    const { tensors, metadata } = readTensors(path);
    const byName = Object.fromEntries(tensors.map(({ name, data }) => [name, [...data]]));
    expect(byName).toEqual({ a: [1.5, -2.25], b: [1, -2, 65504, 2 ** -24], c: [1, -3.140625] });
    expect(metadata).toEqual({ format: 'pt' });
  });

  test('what is written is read back, shapes and bits', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(
          fc.record({
            name: fc.string({ minLength: 1 }).filter((name) => name !== '__metadata__'),
            values: fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), { maxLength: 20 }),
          }),
          { selector: ({ name }) => name, maxLength: 6 },
        ),
        (made) => {
          const tensors = made.map(({ name, values }) => ({
            name,
            shape: [values.length],
            data: Float32Array.from(values),
          }));
          const files = new FileSet(directory);
          files.tensors('written.safetensors', tensors, { steps: '3' });
          files.commit();
          const read = readTensors(join(directory, 'written.safetensors'));
          expect(new Map(read.tensors.map((tensor) => [tensor.name, tensor]))).toEqual(
            new Map(tensors.map((tensor) => [tensor.name, tensor])),
          );
          expect(read.metadata.steps).toBe('3');
        },
      ),
      { numRuns: 50 },
    );
  });

  test('every half-precision number decodes to its sign, exponent and fraction', () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, index) => index);
    const decoded = new Float32Array(65536);
    decodeTensor(new Uint8Array(bits.buffer), 'F16', decoded);
    for (let half = 0; half < 0x7c00; half += 37) {
      const exponent = half >> 10;
      const expected = exponent
        ? 2 ** (exponent - 15) * (1 + (half & 1023) / 1024)
        : (half & 1023) * 2 ** -24;
      expect(decoded[half]).toBe(expected);
      expect(decoded[half | 0x8000]).toBe(-expected);
    }
  });
});

describe('what is damaged is named', () => {
  const cases: [string, () => string, RegExp][] = [
    ['an empty file', () => emptyFile(), /0 bytes is too short/],
    ['a header longer than the file', () => file('{}', 0, 5000), /truncated: its header is 5000 bytes/],
    ['a header length that is a lie', () => file('{}', 0, 2 ** 40), /not a safetensors file/],
    ['a header that is not JSON', () => file('{"a":'), /not JSON/],
    ['a header that is a list', () => file('[1]'), /not a JSON object/],
    ['a tensor cut off', () => file({ w: entry('F32', [4], 0, 16) }, 10), /tensor "w": truncated/],
    [
      'overlapping tensors',
      () => file({ a: entry('F32', [2], 0, 8), b: entry('F32', [2], 4, 12) }, 12),
      /tensor "b": .*overlap/,
    ],
    ['a hole', () => file({ a: entry('F32', [1], 4, 8) }, 8), /tensor "a": 4 bytes before it/],
    [
      'bytes after the last tensor',
      () => file({ a: entry('F32', [1], 0, 4) }, 9),
      /5 bytes after the last tensor/,
    ],
    [
      'a shape that does not fit its bytes',
      () => file({ a: entry('F32', [3], 0, 8) }, 8),
      /tensor "a": F32 of shape \[3\] takes 12 bytes/,
    ],
    [
      'a shape whose product overflows',
      () => file({ a: entry('F32', [2 ** 30, 2 ** 30, 2 ** 30], 0, 8) }, 8),
      /tensor "a": F32 of shape/,
    ],
    ['negative offsets', () => file({ a: entry('F32', [1], -4, 0) }, 0), /tensor "a": data_offsets/],
    [
      'a dtype we do not read',
      () => file({ a: entry('I64', [1], 0, 8) }, 8),
      /tensor "a": dtype "I64" is not implemented/,
    ],
    [
      'a number that is not finite',
      () => file({ a: entry('F32', [2], 0, 8) }, new Uint8Array(new Float32Array([1, Number.NaN]).buffer)),
      /tensor a: element 1 is NaN/,
    ],
  ];
  test.each(cases)('%s', (_name, make, message) => {
    const path = make();
    expect(() => readTensors(path)).toThrow(ConfigError);
    expect(() => readTensors(path)).toThrow(message);
    expect(() => readTensors(path)).toThrow(path);
  });

  test('a file that is not there', () => {
    expect(() => readTensors(join(directory, 'nowhere.safetensors'))).toThrow(
      /nowhere.safetensors: cannot be opened/,
    );
  });
});

test('random bytes and mutated headers give a ConfigError or tensors, nothing else', () => {
  const path = join(directory, 'fuzz.safetensors');
  const attempt = (bytes: Uint8Array) => {
    writeFileSync(path, bytes);
    try {
      readTensors(path);
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), attempt), { numRuns: 300 });

  const header = JSON.stringify({ a: entry('F32', [2, 3], 0, 24), b: entry('BF16', [4], 24, 32) });
  const whole = new Uint8Array(8 + header.length + 32);
  new DataView(whole.buffer).setBigUint64(0, BigInt(header.length), true);
  whole.set(new TextEncoder().encode(header), 8);
  const mutation = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(mutation, fc.nat(whole.length), (changes, length) => {
      const bytes = whole.slice();
      for (const [at, value] of changes) bytes[at] = value;
      attempt(bytes);
      attempt(bytes.subarray(0, length));
    }),
    { numRuns: 500 },
  );
  const digit = fc.constantFrom('0', '9', '-', 'e', '.', '999999999999999999999');
  fc.assert(
    fc.property(fc.nat(header.length), digit, (at, text) => {
      const changed = new TextEncoder().encode(header.slice(0, at) + text + header.slice(at + 1));
      const bytes = new Uint8Array(8 + changed.length + 32);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(changed.length), true);
      bytes.set(changed, 8);
      attempt(bytes);
    }),
    { numRuns: 500 },
  );
});

// What the kernels' tests share: tensors by value, random numbers, and the comparison.
import { afterAll, describe, expect, test } from 'vitest';
import { createRandom } from '../../../lib/random.ts';
import type { Kernels, Pointer } from '../kernels.ts';
import { openKernels } from '../open.ts';

/** Puts values into the heap, reads them back, and frees everything at once. */
export class Tensors {
  readonly #kernels: Kernels;
  readonly #pointers: Pointer[] = [];

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
  }

  bytes(count: number): Pointer {
    const pointer = this.#kernels.alloc(count);
    this.#pointers.push(pointer);
    return pointer;
  }
  /** Floats that hold NaN until written, so that what an op leaves out shows. */
  blank(count: number): Pointer {
    const pointer = this.bytes(4 * count);
    this.#kernels.f32(pointer, count).fill(Number.NaN);
    return pointer;
  }
  floats(values: ArrayLike<number>): Pointer {
    const pointer = this.bytes(4 * values.length);
    this.#kernels.f32(pointer, values.length).set(values);
    return pointer;
  }
  doubles(values: ArrayLike<number>): Pointer {
    const pointer = this.bytes(8 * values.length);
    this.#kernels.f64(pointer, values.length).set(values);
    return pointer;
  }
  ints(values: ArrayLike<number>): Pointer {
    const pointer = this.bytes(4 * values.length);
    this.#kernels.i32(pointer, values.length).set(values);
    return pointer;
  }
  read(pointer: Pointer, count: number): number[] {
    return [...this.#kernels.f32(pointer, count)];
  }
  /** The bits, for comparisons that must be exact. */
  bits(pointer: Pointer, count: number): Buffer {
    return Buffer.from(this.#kernels.u8(pointer, 4 * count));
  }
  free(): void {
    for (const pointer of this.#pointers.splice(0)) this.#kernels.free(pointer);
  }
}

/** Numbers in (-1, 1) that float32 holds exactly, so that references in double start from the same input. */
export function randomFloats(count: number, seed: number, scale = 1): number[] {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => Math.fround((random.next() * 2 - 1) * scale));
}

/** |actual − expected| ≤ tolerance · (scale of expected), where the scale is at least 1. */
export function expectClose(actual: readonly number[], expected: readonly number[], tolerance = 1e-5): void {
  expect(actual.length).toBe(expected.length);
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  for (const [index, value] of expected.entries()) {
    const difference = Math.abs(actual[index]! - value);
    if (!(difference <= tolerance * scale)) {
      expect.fail(`element ${index} is ${actual[index]}, not ${value} (scale ${scale})`);
    }
  }
}

/** The gradient of a function of several arrays by central differences. */
export function numericalGradient(loss: () => number, values: number[], step = 1e-4): number[] {
  return values.map((value, index) => {
    values[index] = value + step;
    const above = loss();
    values[index] = value - step;
    const below = loss();
    values[index] = value;
    return (above - below) / (2 * step);
  });
}

export const dot = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, value, index) => sum + value * b[index]!, 0);

/** Runs the tests on every build of the kernels this machine can have, with two threads. */
export async function onEveryBuild(tests: (kernels: Kernels, tensors: Tensors) => void): Promise<void> {
  for (const kind of ['native', 'wasm'] as const) {
    try {
      const kernels = await openKernels({ kind, threads: 2, log: () => {} });
      describe(`${kind} kernels`, () => {
        tests(kernels, new Tensors(kernels));
        afterAll(() => kernels.close());
      });
    } catch (error) {
      if (kind === 'wasm') throw error;
      describe.skip(`native kernels, which cannot be built here: ${error}`, () => test('skipped', () => {}));
    }
  }
}

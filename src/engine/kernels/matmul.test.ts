import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dot, expectClose, onEveryBuild, randomFloats } from './testing/tensors.ts';

/** x[m, k] · w[n, k]ᵀ in double. */
function product(x: readonly number[], w: readonly number[], m: number, n: number, k: number): number[] {
  return Array.from({ length: m * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let p = 0; p < k; p++) sum += x[i * k + p]! * w[j * k + p]!;
    return sum;
  });
}
function transpose(a: readonly number[], rows: number, columns: number): number[] {
  return Array.from({ length: a.length }, (_, at) => a[(at % rows) * columns + Math.floor(at / rows)]!);
}
/** To the nearest bfloat16, ties to even. */
function rounded(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer);
  const low = bits[0]! & 0xffff;
  const isUp = low > 0x8000 || (low === 0x8000 && (bits[0]! & 0x10000) !== 0);
  bits[0] = (bits[0]! & 0xffff0000) + (isUp ? 0x10000 : 0);
  return new Float32Array(bits.buffer)[0]!;
}

const size = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 1, max: 70 }));
const depth = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.constantFrom(255, 256, 257, 600));

await onEveryBuild((kernels, tensors) => {
  test('a product on packed weights equals the sum of products, with bias and accumulation', () => {
    fc.assert(
      fc.property(
        size,
        size,
        depth,
        fc.boolean(),
        fc.boolean(),
        fc.nat(9),
        (m, n, k, bias, accumulate, gap) => {
          const [x, w] = [randomFloats(m * k, 1), randomFloats(n * k, 2)];
          const [b, before] = [randomFloats(n, 3), randomFloats(m * n, 4)];
          const packed = tensors.bytes(kernels.packedBytes(n, k));
          kernels.pack({ weight: tensors.floats(w), n, k, packed });
          const wide = Array.from({ length: m * (k + gap) }, (_, at) => {
            const [i, p] = [Math.floor(at / (k + gap)), at % (k + gap)];
            return p < k ? x[i * k + p]! : Number.NaN;
          });
          const y = accumulate ? tensors.floats(before) : tensors.blank(m * n);
          kernels.matmul({
            x: tensors.floats(wide),
            xStride: k + gap,
            packed,
            y,
            m,
            n,
            k,
            accumulate,
            bias: bias ? tensors.floats(b) : undefined,
          });
          const expected = product(x, w, m, n, k).map(
            (value, at) => value + (bias ? b[at % n]! : 0) + (accumulate ? before[at]! : 0),
          );
          expectClose(tensors.read(y, m * n), expected);
          tensors.free();
        },
      ),
      { numRuns: 60, seed: 1 },
    );
  });

  test('packed transposed, the weights give the gradient of the input', () => {
    fc.assert(
      fc.property(size, size, size, (m, n, k) => {
        const [dy, w] = [randomFloats(m * n, 5), randomFloats(n * k, 6)];
        const packed = tensors.bytes(kernels.packedBytes(k, n));
        kernels.pack({ weight: tensors.floats(w), n, k, packed, transposed: true });
        const dx = tensors.blank(m * k);
        kernels.matmul({ x: tensors.floats(dy), packed, y: dx, m, n: k, k: n });
        expectClose(tensors.read(dx, m * k), product(dy, transpose(w, n, k), m, k, n));
        tensors.free();
      }),
      { numRuns: 40, seed: 2 },
    );
  });

  test('weight and bias gradients are added', () => {
    fc.assert(
      fc.property(fc.oneof(size, fc.constantFrom(256, 300)), size, size, (m, n, k) => {
        const [dy, x] = [randomFloats(m * n, 7), randomFloats(m * k, 8)];
        const [w, b] = [randomFloats(n * k, 9), randomFloats(n, 10)];
        const [dw, db] = [tensors.floats(w), tensors.floats(b)];
        kernels.weightGradient({ dy: tensors.floats(dy), x: tensors.floats(x), dw, m, n, k });
        kernels.biasGradient({ dy: tensors.floats(dy), db, m, n });
        const [dyT, xT] = [transpose(dy, m, n), transpose(x, m, k)];
        expectClose(
          tensors.read(dw, n * k),
          product(dyT, xT, n, k, m).map((value, at) => value + w[at]!),
        );
        expectClose(
          tensors.read(db, n),
          b.map((value, j) => dyT.slice(j * m, (j + 1) * m).reduce((sum, d) => sum + d, value)),
        );
        tensors.free();
      }),
      { numRuns: 40, seed: 3 },
    );
  });

  test('a weight gradient in bfloat16 is that of rounded factors', () => {
    fc.assert(
      fc.property(fc.oneof(size, fc.constantFrom(511, 600)), size, size, (m, n, k) => {
        const [dy, x, w] = [randomFloats(m * n, 7), randomFloats(m * k, 8), randomFloats(n * k, 9)];
        const dw = tensors.floats(w);
        kernels.weightGradient({ dy: tensors.floats(dy), x: tensors.floats(x), dw, m, n, k, half: true });
        const [dyT, xT] = [transpose(dy.map(rounded), m, n), transpose(x.map(rounded), m, k)];
        expectClose(
          tensors.read(dw, n * k),
          product(dyT, xT, n, k, m).map((value, at) => value + w[at]!),
        );
        tensors.free();
      }),
      { numRuns: 40, seed: 3 },
    );
  });

  test('a row gives the same bits alone and among others', () => {
    for (const [n, k] of [
      [5, 3],
      [151, 128],
      [352, 300],
      [1000, 64],
    ] as const) {
      const m = 37;
      const x = randomFloats(m * k, 11);
      const packed = tensors.bytes(kernels.packedBytes(n, k));
      kernels.pack({ weight: tensors.floats(randomFloats(n * k, 12)), n, k, packed });
      const [all, bias] = [tensors.floats(x), tensors.floats(randomFloats(n, 13))];
      const together = tensors.blank(m * n);
      kernels.matmul({ x: all, packed, y: together, m, n, k, bias });
      for (const rows of [1, 2, 3, 5, 8]) {
        const part = tensors.blank(rows * n);
        for (let first = 0; first + rows <= m; first += rows) {
          kernels.matmul({ x: all + 4 * first * k, packed, y: part, m: rows, n, k, bias });
          expect(tensors.bits(part, rows * n).equals(tensors.bits(together + 4 * first * n, rows * n))).toBe(
            true,
          );
        }
      }
      tensors.free();
    }
  });

  test('packed in bfloat16, the product is that of rounded weights and rounded inputs, whatever the rows beside them', () => {
    expect([1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20].map(rounded)).toEqual([
      1,
      1 + 2 ** -6,
      1 + 2 ** -7,
    ]);
    for (const [n, k] of [
      [1, 1],
      [5, 3],
      [151, 129],
      [352, 300],
      [64, 1100],
    ] as const) {
      for (const transposed of [false, true]) {
        const [outputs, depths] = transposed ? [k, n] : [n, k];
        const w = randomFloats(n * k, 14);
        w[0] = 1 + 2 ** -8;
        const packed = tensors.bytes(kernels.packedBytes(outputs, depths, true));
        kernels.pack({ weight: tensors.floats(w), n, k, packed, transposed, half: true });
        const weights = (transposed ? transpose(w, n, k) : w).map(rounded);
        const [m, gap] = [40, 3];
        const x = randomFloats(m * depths, 15);
        x[0] = -1 - 2 ** -8;
        const apart = Array.from({ length: m * (depths + gap) }, (_, at) => {
          const [i, p] = [Math.floor(at / (depths + gap)), at % (depths + gap)];
          return p < depths ? x[i * depths + p]! : Number.NaN;
        });
        const call = { packed, n: outputs, k: depths, xStride: depths + gap, half: true };
        const [all, together] = [tensors.floats(apart), tensors.blank(m * outputs)];
        kernels.matmul({ ...call, x: all, y: together, m });
        expectClose(
          tensors.read(together, m * outputs),
          product(x.map(rounded), weights, m, outputs, depths),
        );
        for (const rows of [1, 2, 3, 7]) {
          const part = tensors.blank(rows * outputs);
          for (let first = 0; first + rows <= m; first += rows) {
            kernels.matmul({ ...call, x: all + 4 * first * (depths + gap), y: part, m: rows });
            const bits = tensors.bits(together + 4 * first * outputs, rows * outputs);
            expect(tensors.bits(part, rows * outputs).equals(bits)).toBe(true);
          }
        }
        kernels.f32(all + 4 * (m - 1) * (depths + gap), depths)[depths - 1] = Number.NaN;
        kernels.matmul({ ...call, x: all, y: together, m });
        expect(tensors.read(together, m * outputs).findIndex(Number.isNaN)).toBe((m - 1) * outputs);
        tensors.free();
      }
    }
  });

  test('8-bit products are the sums of whole numbers by blocks of 64, whatever the rows beside them', () => {
    const float = Math.fround;
    /** Blocks of 64: whole numbers and their scale. */
    const rounded = (values: readonly number[]) =>
      Array.from({ length: Math.ceil(values.length / 64) }, (_, block) => {
        const part = values.slice(64 * block, 64 * block + 64).map(float);
        const largest = Math.max(...part.map(Math.abs));
        const inverse = largest > 0 ? float(127 / largest) : 0;
        // Ties to even, as the kernels' conversion does.
        const whole = part.map((value) => {
          const scaled = float(value * inverse);
          const down = Math.floor(scaled);
          const up = scaled - down > 0.5 || (scaled - down === 0.5 && down % 2 !== 0);
          return up ? down + 1 : down;
        });
        return { whole, scale: float(largest / 127) };
      });
    for (const [n, k] of [
      [1, 1],
      [5, 3],
      [151, 128],
      [70, 300],
    ] as const) {
      const w = randomFloats(n * k, 16);
      const packed = tensors.bytes(kernels.packedBytesInt8(n, k));
      kernels.packInt8({ weight: tensors.floats(w), n, k, packed });
      const columns = Array.from({ length: n }, (_, j) => rounded(w.slice(j * k, (j + 1) * k)));
      for (const m of [1, 2, 5, 13]) {
        const x = randomFloats(m * k, 17, 3);
        const call = { x: tensors.floats(x), packed, m, n, k };
        const bias = randomFloats(n, 18);
        const y = tensors.floats(randomFloats(m * n, 19));
        const before = tensors.read(y, m * n);
        kernels.matmulInt8({ ...call, y, bias: tensors.floats(bias), accumulate: true });
        const expected = before.map((value, at) => {
          const row = rounded(x.slice(Math.floor(at / n) * k, (Math.floor(at / n) + 1) * k));
          const sum = row.reduce((total, { whole, scale }, block) => {
            const column = columns[at % n]![block]!;
            return total + scale * column.scale * dot(whole, column.whole);
          }, 0);
          return value + bias[at % n]! + sum;
        });
        expectClose(tensors.read(y, m * n), expected);
        const [together, alone] = [tensors.blank(m * n), tensors.blank(n)];
        kernels.f32(call.x + 4 * (m - 1) * k, k)[k - 1] = Number.NaN;
        kernels.matmulInt8({ ...call, y: together });
        expect(tensors.read(together, m * n).findIndex(Number.isNaN)).toBe((m - 1) * n);
        // The last row is NaN, whose bits WebAssembly leaves open.
        expect(tensors.read(together + 4 * (m - 1) * n, n).every(Number.isNaN)).toBe(true);
        for (let row = 0; row < m - 1; row++) {
          kernels.matmulInt8({ ...call, x: call.x + 4 * row * k, m: 1, y: alone });
          const bits = tensors.bits(together + 4 * row * n, n);
          expect(bits.equals(tensors.bits(alone, n))).toBe(true);
        }
      }
      tensors.free();
    }
  });
});

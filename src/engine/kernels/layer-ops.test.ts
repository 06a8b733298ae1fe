import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dot, expectClose, numericalGradient, onEveryBuild, randomFloats } from './testing/tensors.ts';

const size = fc.integer({ min: 0, max: 37 });
const silu = (x: number) => x / (1 + Math.exp(-x));
const geluByTanh = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function norm(x: readonly number[], weight: readonly number[], epsilon: number): number[] {
  const width = weight.length;
  return x.map((value, at) => {
    const start = at - (at % width);
    const squares = x.slice(start, start + width).reduce((sum, other) => sum + other * other, 0);
    return (value / Math.sqrt(squares / width + epsilon)) * weight[at % width]!;
  });
}

/** Hugging Face's rotation: x·cos + rotate_half(x)·sin, angle position / theta^(2j / headDim). */
function rotate(
  x: readonly number[],
  positions: readonly number[],
  heads: number,
  headDim: number,
): number[] {
  const half = headDim / 2;
  return x.map((value, at) => {
    const d = at % headDim;
    const angle = positions[Math.floor(at / (heads * headDim))]! / 100 ** ((2 * (d % half)) / headDim);
    const other = d < half ? -x[at + half]! : x[at - half]!;
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}
function ropeTables(rows: number, headDim: number) {
  const half = headDim / 2;
  const angles = Array.from(
    { length: rows * half },
    (_, at) => Math.floor(at / half) / 100 ** ((2 * (at % half)) / headDim),
  );
  return { cos: angles.map(Math.cos), sin: angles.map(Math.sin) };
}

await onEveryBuild((kernels, tensors) => {
  test('gather copies rows and scatterAdd is its transpose', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), size, size, (rows, width, count) => {
        const table = randomFloats(rows * width, 1);
        const source = randomFloats(count * width, 2);
        const ids = Array.from({ length: count }, (_, i) => (i * 7) % rows);
        const [out, sum] = [tensors.blank(count * width), tensors.floats(table)];
        kernels.gather({ table: tensors.floats(table), rows, width, ids: tensors.ints(ids), count, out });
        kernels.scatterAdd({
          table: sum,
          rows,
          width,
          ids: tensors.ints(ids),
          count,
          source: tensors.floats(source),
        });
        const copied = ids.flatMap((id) => table.slice(id * width, (id + 1) * width));
        expect(tensors.read(out, count * width)).toEqual(copied);
        const added = [...table];
        for (const [i, id] of ids.entries()) {
          for (let j = 0; j < width; j++) added[id * width + j]! += source[i * width + j]!;
        }
        expectClose(tensors.read(sum, rows * width), added);
        tensors.free();
      }),
      { numRuns: 40, seed: 1 },
    );
  });

  test('rmsNorm adds a residual, norms each vector, and keeps 1/rms', () => {
    fc.assert(
      fc.property(
        size,
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 3 }),
        fc.boolean(),
        (rows, width, heads, residual) => {
          const count = rows * heads * width;
          const [x, other, weight] = [randomFloats(count, 3), randomFloats(count, 4), randomFloats(width, 5)];
          const [out, sum, inverse] = [
            tensors.blank(count),
            tensors.blank(count),
            tensors.blank(rows * heads),
          ];
          kernels.rmsNorm({
            x: tensors.floats(x),
            weight: tensors.floats(weight),
            out,
            rows,
            width,
            heads,
            epsilon: 1e-5,
            inverse,
            ...(residual ? { residual: tensors.floats(other), sum } : {}),
          });
          const input = residual ? x.map((value, at) => value + other[at]!) : x;
          if (residual) expectClose(tensors.read(sum, count), input);
          expectClose(tensors.read(out, count), norm(input, weight, 1e-5), 2e-5);
          const ones = norm(
            input,
            Array.from({ length: width }, () => 1),
            1e-5,
          );
          const ratio = tensors.read(inverse, rows * heads);
          expectClose(
            input.map((value, at) => value * ratio[Math.floor(at / width)]!),
            ones,
            2e-5,
          );
          tensors.free();
        },
      ),
      { numRuns: 40, seed: 2 },
    );
  });

  test('rmsNormBackward is the gradient, also over heads inside wider rows', () => {
    for (const [rows, width, heads, stride] of [
      [3, 5, 1, 5],
      [2, 8, 3, 40],
      [1, 1, 1, 1],
      [5, 19, 2, 38],
    ] as const) {
      const count = rows * heads * width;
      const [x, weight, dy] = [randomFloats(count, 6), randomFloats(width, 7), randomFloats(count, 8)];
      const wide = (values: readonly number[]) =>
        Array.from({ length: rows * stride }, (_, at) =>
          at % stride < heads * width ? values[Math.floor(at / stride) * heads * width + (at % stride)]! : 0,
        );
      const narrow = (values: readonly number[]) => values.filter((_, at) => at % stride < heads * width);
      const [input, scale, inverse] = [
        tensors.floats(wide(x)),
        tensors.floats(weight),
        tensors.blank(rows * heads),
      ];
      const out = tensors.floats(wide(x));
      const shape = { x: input, weight: scale, inverse, rows, width, heads, stride };
      kernels.rmsNorm({ ...shape, out, epsilon: 1e-6 });
      const dx = tensors.floats(wide(dy));
      const dweight = tensors.floats(weight);
      kernels.rmsNormBackward({ ...shape, dy: tensors.floats(wide(dy)), dx, dweight, accumulate: true });
      const loss = () => dot(norm(x, weight, 1e-6), dy);
      const expected = numericalGradient(loss, x).map((value, at) => value + dy[at]!);
      expectClose(narrow(tensors.read(dx, rows * stride)), expected, 1e-4);
      const expectedWeight = numericalGradient(loss, weight).map((value, at) => value + weight[at]!);
      expectClose(tensors.read(dweight, width), expectedWeight, 1e-4);
      tensors.free();
    }
  });

  test('rope rotates halves by position, and its inverse undoes it', () => {
    fc.assert(
      fc.property(
        size,
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 20 }),
        (rows, heads, half) => {
          const headDim = 2 * half;
          const x = randomFloats(rows * heads * headDim, 9);
          const positions = Array.from({ length: rows }, (_, i) => (i * 5) % 11);
          const { cos, sin } = ropeTables(11, headDim);
          const at = tensors.floats(x);
          const call = {
            x: at,
            rows,
            heads,
            headDim,
            positions: tensors.ints(positions),
            tableRows: 11,
            cos: tensors.floats(cos),
            sin: tensors.floats(sin),
          };
          kernels.rope(call);
          expectClose(tensors.read(at, x.length), rotate(x, positions, heads, headDim));
          kernels.rope({ ...call, inverse: true });
          expectClose(tensors.read(at, x.length), x);
          tensors.free();
        },
      ),
      { numRuns: 40, seed: 3 },
    );
  });

  test('siluMultiply and its gradient', () => {
    fc.assert(
      fc.property(size, fc.integer({ min: 1, max: 21 }), fc.nat(7), (rows, width, gap) => {
        const stride = width + gap;
        const count = rows ? (rows - 1) * stride + width : 0;
        const [gate, up] = [randomFloats(rows * stride, 10, 30), randomFloats(rows * stride, 11)];
        const dout = randomFloats(rows * width, 12);
        const spread = (j: number) => Math.floor(j / width) * stride + (j % width);
        const value = () => dout.map((_, j) => silu(gate[spread(j)]!) * up[spread(j)]!);
        const [out, dgate, dup] = [
          tensors.blank(rows * width),
          tensors.blank(rows * stride),
          tensors.blank(rows * stride),
        ];
        const call = { gate: tensors.floats(gate), up: tensors.floats(up), rows, width, stride };
        kernels.siluMultiply({ ...call, out });
        expectClose(tensors.read(out, rows * width), value());
        kernels.siluMultiplyBackward({ ...call, dout: tensors.floats(dout), dgate, dup });
        const slope = (x: number) => {
          const s = 1 / (1 + Math.exp(-x));
          return s * (1 + x * (1 - s));
        };
        const [gotGate, gotUp] = [tensors.read(dgate, count), tensors.read(dup, count)];
        expectClose(
          dout.map((_, j) => gotGate[spread(j)]!),
          dout.map((d, j) => d * up[spread(j)]! * slope(gate[spread(j)]!)),
        );
        expectClose(
          dout.map((_, j) => gotUp[spread(j)]!),
          dout.map((d, j) => d * silu(gate[spread(j)]!)),
        );
        tensors.free();
      }),
      { numRuns: 40, seed: 4 },
    );
    const [gate, up] = [randomFloats(6, 13, 2), randomFloats(6, 14)];
    const dout = randomFloats(6, 15);
    const [dgate, dup] = [tensors.blank(6), tensors.blank(6)];
    kernels.siluMultiplyBackward({
      gate: tensors.floats(gate),
      up: tensors.floats(up),
      dout: tensors.floats(dout),
      dgate,
      dup,
      rows: 2,
      width: 3,
    });
    const loss = () =>
      dot(
        gate.map((x, at) => silu(x) * up[at]!),
        dout,
      );
    expectClose(tensors.read(dgate, 6), numericalGradient(loss, gate), 1e-5);
    expectClose(tensors.read(dup, 6), numericalGradient(loss, up), 1e-5);
    tensors.free();
  });

  test('geluMultiply and its gradient', () => {
    for (const [width, spread] of [
      [3, 1],
      [21, 3],
      [40, 12],
    ] as const) {
      const count = 2 * width;
      const [gate, up] = [randomFloats(count, 30, spread), randomFloats(count, 31)];
      const dout = randomFloats(count, 32);
      const [out, dgate, dup] = [tensors.blank(count), tensors.blank(count), tensors.blank(count)];
      const call = { gate: tensors.floats(gate), up: tensors.floats(up), rows: 2, width };
      kernels.geluMultiply({ ...call, out });
      kernels.geluMultiplyBackward({ ...call, dout: tensors.floats(dout), dgate, dup });
      const value = () => gate.map((x, at) => geluByTanh(x) * up[at]!);
      expectClose(tensors.read(out, count), value());
      const loss = () => dot(value(), dout);
      expectClose(tensors.read(dgate, count), numericalGradient(loss, gate), 1e-5);
      expectClose(tensors.read(dup, count), numericalGradient(loss, up), 1e-5);
      tensors.free();
    }
  });

  test('softCap and its gradient, near 0 and far from it', () => {
    for (const spread of [0.01, 5, 100, 1e6]) {
      const [x, dy] = [randomFloats(61, 33, spread), randomFloats(61, 34)];
      const [y, dx] = [tensors.floats(x), tensors.floats(dy)];
      kernels.softCap({ x: y, cap: 30, count: 61 });
      const capped = x.map((value) => 30 * Math.tanh(value / 30));
      expectClose(tensors.read(y, 61), capped, 3e-7);
      kernels.softCapBackward({ y, dy: dx, cap: 30, count: 61 });
      const slopes = x.map((value, at) => dy[at]! / Math.cosh(value / 30) ** 2);
      expectClose(tensors.read(dx, 61), slopes, 1e-6);
      tensors.free();
    }
  });

  test('a norm whose weight counts from 1 is one with 1 added to its weight', () => {
    const [width, rows] = [21, 3];
    const [x, weight] = [randomFloats(rows * width, 35), randomFloats(width, 36)];
    const dy = randomFloats(rows * width, 37);
    const run = (given: number[], offset: number) => {
      const [out, dx] = [tensors.blank(rows * width), tensors.blank(rows * width)];
      const [inverse, dweight] = [tensors.blank(rows), tensors.floats(given.map(() => 0))];
      const call = { x: tensors.floats(x), weight: tensors.floats(given), rows, width, offset };
      kernels.rmsNorm({ ...call, out, epsilon: 1e-6, inverse });
      kernels.rmsNormBackward({ ...call, inverse, dy: tensors.floats(dy), dx, dweight });
      const result = [out, dx].map((at) => tensors.read(at, rows * width));
      return [...result, tensors.read(dweight, width)];
    };
    const [from1, plain] = [
      run(weight, 1),
      run(
        weight.map((value) => value + 1),
        0,
      ),
    ];
    for (const [index, values] of from1.entries()) expectClose(values, plain[index]!, 1e-6);
    tensors.free();
  });

  test('gelu and its gradient', () => {
    // Φ by Simpson's rule on the density, from far below.
    const density = (x: number) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
    const share = (x: number) => {
      const [from, steps] = [-9, 400];
      const width = (x - from) / steps;
      let sum = density(from) + density(x);
      for (let i = 1; i < steps; i++) sum += (i % 2 ? 4 : 2) * density(from + i * width);
      return (sum * width) / 3;
    };
    for (const count of [1, 7, 16, 61]) {
      const [x, dout] = [randomFloats(count, 20, 6), randomFloats(count, 21)];
      const [out, dx] = [tensors.blank(count), tensors.blank(count)];
      kernels.gelu({ x: tensors.floats(x), out, count });
      kernels.geluBackward({ x: tensors.floats(x), dout: tensors.floats(dout), dx, count });
      const value = () => x.map((one) => one * share(one));
      expectClose(tensors.read(out, count), value(), 1e-6);
      expectClose(
        tensors.read(dx, count),
        numericalGradient(() => dot(value(), dout), x),
        1e-5,
      );
    }
    const [wide, out] = [[-1e4, -40, 0, 40, 1e4], tensors.blank(5)];
    kernels.gelu({ x: tensors.floats(wide), out, count: 5 });
    expectClose(tensors.read(out, 5), [0, 0, 0, 40, 1e4], 1e-9);
    tensors.free();
  });

  test('elementwise ops do what their names say, at any length', () => {
    fc.assert(
      fc.property(fc.oneof(size, fc.constantFrom(16384, 16385, 40001)), (count) => {
        const [a, b] = [randomFloats(count, 16), randomFloats(count, 17)];
        const [pa, pb, out] = [tensors.floats(a), tensors.floats(b), tensors.blank(count)];
        kernels.add({ a: pa, b: pb, out, count });
        expectClose(
          tensors.read(out, count),
          a.map((value, at) => value + b[at]!),
          1e-6,
        );
        kernels.multiply({ a: pa, b: pb, out, count });
        expectClose(
          tensors.read(out, count),
          a.map((value, at) => value * b[at]!),
          1e-6,
        );
        kernels.axpy({ alpha: 2.5, x: pa, y: pb, count });
        expectClose(
          tensors.read(pb, count),
          a.map((value, at) => b[at]! + 2.5 * value),
          1e-6,
        );
        kernels.scale({ alpha: -3, x: pa, count });
        expectClose(
          tensors.read(pa, count),
          a.map((value) => -3 * value),
          1e-6,
        );
        kernels.copy({ from: pa, to: out, count });
        expect(tensors.bits(out, count).equals(tensors.bits(pa, count))).toBe(true);
        kernels.fill({ x: out, value: 0.5, count });
        expect(tensors.read(out, count).every((value) => value === 0.5)).toBe(true);
        tensors.free();
      }),
      { numRuns: 12, seed: 5 },
    );
  });
});

import { expect, test } from 'vitest';
import { expectClose, onEveryBuild, randomFloats } from './testing/tensors.ts';

/** Every 16-bit pattern of a format, by its definition. */
function decodeHalf(bits: number, format: 'bf16' | 'f16'): number {
  const [exponentBits, fractionBits] = format === 'bf16' ? [8, 7] : [5, 10];
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> fractionBits) & (2 ** exponentBits - 1);
  const fraction = (bits & (2 ** fractionBits - 1)) / 2 ** fractionBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent ? (1 + fraction) * 2 ** (exponent - bias) : fraction * 2 ** (1 - bias));
}

await onEveryBuild((kernels, tensors) => {
  test('AdamW follows its recurrence over several steps', () => {
    const count = 37;
    const options = {
      learningRate: 0.01,
      beta1: 0.9,
      beta2: 0.95,
      epsilon: 1e-8,
      weightDecay: 0.1,
      gradientScale: 0.5,
    };
    const p = randomFloats(count, 1);
    const [m, v] = [p.map(() => 0), p.map(() => 0)];
    const [parameter, moment1, moment2] = [tensors.floats(p), tensors.floats(m), tensors.floats(v)];
    for (let step = 1; step <= 5; step++) {
      const g = randomFloats(count, 10 + step);
      kernels.adamW({ ...options, parameter, gradient: tensors.floats(g), moment1, moment2, count, step });
      for (let i = 0; i < count; i++) {
        const slope = g[i]! * 0.5;
        m[i] = 0.9 * m[i]! + 0.1 * slope;
        v[i] = 0.95 * v[i]! + 0.05 * slope * slope;
        const [mHat, vHat] = [m[i]! / (1 - 0.9 ** step), v[i]! / (1 - 0.95 ** step)];
        p[i] = p[i]! - 0.01 * 0.1 * p[i]! - (0.01 * mHat) / (Math.sqrt(vHat) + 1e-8);
      }
    }
    expectClose(tensors.read(parameter, count), p, 2e-6);
    expectClose(tensors.read(moment1, count), m, 1e-6);
    expectClose(tensors.read(moment2, count), v, 1e-6);
    tensors.free();
  });

  test('sumOfSquares is a sum in double, and allFinite finds one bad element', () => {
    for (const count of [0, 1, 3, 16384, 50_001]) {
      const values = randomFloats(count, 2, 1e3);
      const x = tensors.floats(values);
      const expected = values.reduce((sum, value) => sum + value * value, 0);
      expect(Math.abs(kernels.sumOfSquares({ x, count }) - expected)).toBeLessThanOrEqual(1e-12 * expected);
      expect(kernels.allFinite({ x, count })).toBe(true);
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        if (count === 0) continue;
        kernels.f32(x, count)[count - 1] = bad;
        expect(kernels.allFinite({ x, count })).toBe(false);
      }
      tensors.free();
    }
  });

  test('every 16-bit float widens exactly and narrows back to itself', () => {
    for (const format of ['bf16', 'f16'] as const) {
      const count = 65536;
      const [half, full, back] = [tensors.bytes(2 * count), tensors.blank(count), tensors.bytes(2 * count)];
      const patterns = kernels.u16(half, count).map((_, bits) => bits);
      kernels.u16(half, count).set(patterns);
      kernels.widen({ from: half, to: full, count, format });
      kernels.narrow({ from: full, to: back, count, format });
      const wide = kernels.f32(full, count);
      const again = kernels.u16(back, count);
      let wrong = 0;
      for (let bits = 0; bits < count; bits++) {
        const expected = decodeHalf(bits, format);
        if (!Object.is(wide[bits], expected)) wrong++;
        if (Number.isNaN(expected) ? !Number.isNaN(decodeHalf(again[bits]!, format)) : again[bits] !== bits)
          wrong++;
      }
      expect(wrong).toBe(0);
      tensors.free();
    }
  });

  test('narrowing rounds to the nearest, ties to even', () => {
    for (const format of ['bf16', 'f16'] as const) {
      const values = [
        ...randomFloats(4000, 3, 2),
        ...randomFloats(4000, 4, 1e-6),
        65519.99,
        65520,
        1e-8,
        2 ** -25,
        3 * 2 ** -25,
      ];
      const count = values.length;
      const [from, to] = [tensors.floats(values), tensors.bytes(2 * count)];
      kernels.narrow({ from, to, count, format });
      const out = kernels.u16(to, count);
      const wide = kernels.f32(from, count);
      const wrong = [...out].filter((bits, i) => {
        const distance = (pattern: number) => Math.abs(decodeHalf(pattern, format) - wide[i]!);
        const [sign, magnitude] = [bits & 0x8000, bits & 0x7fff];
        const low = magnitude > 0 ? distance(sign | (magnitude - 1)) : Infinity;
        const high = distance(sign | (magnitude + 1));
        if (!Number.isFinite(decodeHalf(bits, format))) return Math.abs(wide[i]!) < 65520;
        const tie = distance(bits) === low || distance(bits) === high;
        return distance(bits) > Math.min(low, high) || (tie && bits % 2 === 1);
      });
      expect(wrong).toEqual([]);
      tensors.free();
    }
  });
});

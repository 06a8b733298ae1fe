/** Integrals, limits, derivatives and endless sums, worked out in numbers. What does not settle has no value. */
import { approximate, NoValue, realOf, type Value } from './value.ts';

export type RealFunction = (x: number) => Value;

const SETTLED = 1e-10;

function real(f: RealFunction, x: number): number {
  const value = realOf(f(x));
  if (value === undefined || !Number.isFinite(value)) throw new NoValue('not a real number');
  return value;
}

/** The tanh-sinh rule (Takahasi and Mori, 1974): halves the step until two results agree. */
export function integral(f: RealFunction, from: number, to: number): Value {
  if (from === to) return approximate(0);
  if (from > to) {
    const { re, error } = integral(f, to, from) as { re: number; error: number };
    return approximate(-re, 0, error);
  }
  const term = (t: number) => {
    const { x, weight } = node(t, from, to);
    if (!Number.isFinite(x) || !Number.isFinite(weight) || weight === 0) return 0;
    try {
      return real(f, x) * weight;
    } catch (cause) {
      if (cause instanceof NoValue && Math.abs(t) > 2.5) return 0; // the ends, where a weight is nothing
      throw cause;
    }
  };
  let before = Number.NaN;
  for (let level = 1; level <= 6; level++) {
    const step = 2 ** -level;
    let sum = 0;
    let size = 0;
    for (let k = Math.round(-4 / step); k <= 4 / step; k++) {
      const value = term(k * step);
      sum += value;
      size += Math.abs(value);
    }
    const [now, scale] = [step * sum, step * size];
    const apart = Math.abs(now - before);
    if (apart <= SETTLED * Math.max(scale, 1e-6)) return approximate(now, 0, apart + 1e-13 * scale);
    before = now;
  }
  throw new NoValue('an integral that does not settle');
}

/** Where the rule looks at the function for `t`, and how much it counts there. */
function node(t: number, from: number, to: number): { readonly x: number; readonly weight: number } {
  const inner = (Math.PI / 2) * Math.sinh(t);
  const slope = (Math.PI / 2) * Math.cosh(t);
  if (from === -Infinity && to === Infinity) return { x: Math.sinh(inner), weight: Math.cosh(inner) * slope };
  if (to === Infinity) return { x: from + Math.exp(inner), weight: Math.exp(inner) * slope };
  if (from === -Infinity) return { x: to - Math.exp(inner), weight: Math.exp(inner) * slope };
  const half = (to - from) / 2;
  return { x: from + half * (1 + Math.tanh(inner)), weight: (half * slope) / Math.cosh(inner) ** 2 };
}

/** Where `f` goes as x goes to `at`: its value there, or what its values beside it go to. */
export function limit(f: RealFunction, at: number): Value {
  if (Number.isFinite(at)) {
    try {
      return f(at);
    } catch (cause) {
      if (!(cause instanceof NoValue)) throw cause;
    }
    return settled((h) => real(f, at + h));
  }
  return settled((h) => real(f, Math.sign(at) / h));
}

/** Richardson's extrapolation of `f(h)` to h = 0, for what is a power series in h. */
function settled(f: (h: number) => number, rounds = 9): Value {
  let row: number[] = [];
  let best = { value: 0, apart: Infinity };
  for (let round = 0; round < rounds; round++) {
    const next = [f(2 ** -(round + 2))];
    for (const [index, before] of row.entries())
      next.push(next[index]! + (next[index]! - before) / (2 ** (index + 1) - 1));
    const value = next.at(-1)!;
    const apart = round === 0 ? Infinity : Math.abs(value - row.at(-1)!);
    if (apart < best.apart) best = { value, apart };
    row = next;
  }
  if (!(best.apart <= 1e-8 * Math.max(1e-3, Math.abs(best.value)))) throw new NoValue('it does not settle');
  return approximate(best.value, 0, 2 * best.apart + 1e-10 * Math.max(0.01, Math.abs(best.value)));
}

export function derivative(f: RealFunction, at: number): Value {
  const reach = Math.max(1e-2, Math.abs(at) / 16);
  const central = (h: number) => (real(f, at + h * reach) - real(f, at - h * reach)) / (2 * h * reach);
  // A central difference is a series in h², so its square root goes in.
  return settled((h) => central(Math.sqrt(h)));
}

const MOST_TERMS = 1024;

/** The sum of `term(first)`, `term(first + 1)`, … without end. */
export function endlessSum(term: RealFunction, first: number): Value {
  const sums: number[] = [];
  let [sum, small] = [0, 0];
  for (let count = 1; count <= MOST_TERMS; count++) {
    const value = real(term, first + count - 1);
    sum += value;
    small = Math.abs(value) <= 1e-18 * Math.abs(sum) ? small + 1 : 0;
    if (small >= 4) return approximate(sum, 0, 1e-15 * Math.abs(sum));
    if (count >= 4 && (count & (count - 1)) === 0) sums.push(sum);
  }
  return settled((h) => sums[Math.round(-Math.log2(h)) - 2]!, sums.length);
}

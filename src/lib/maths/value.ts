/** Numbers: exact rationals, and where those end, complex numbers in double precision that carry a bound of their error. */

export interface Exact {
  readonly kind: 'exact';
  readonly top: bigint;
  /** Positive, without a factor in common with `top`. */
  readonly bottom: bigint;
}

export interface Approximate {
  readonly kind: 'approximate';
  readonly re: number;
  readonly im: number;
  /** How far the true number may be from this one. */
  readonly error: number;
}

export type Value = Exact | Approximate;

/** An expression without a number: 1/0, ∞ − ∞, a number too large to work out. */
export class NoValue extends Error {}

/** What a computation gives, or undefined if one of its numbers does not exist. */
export function ifValued<T>(compute: () => T): T | undefined {
  try {
    return compute();
  } catch (cause) {
    if (cause instanceof NoValue) return undefined;
    throw cause;
  }
}

/** Longer integers are not worked out. */
const MOST_BITS = 100_000;
const EPSILON = 2 ** -52;

export function exact(top: bigint | number, bottom: bigint | number = 1n): Exact {
  let [a, b] = [BigInt(top), BigInt(bottom)];
  if (b === 0n) throw new NoValue('division by zero');
  if (b < 0n) [a, b] = [-a, -b];
  const common = greatestDivisor(a < 0n ? -a : a, b);
  return { kind: 'exact', top: a / common, bottom: b / common };
}

export function greatestDivisor(a: bigint, b: bigint): bigint {
  let [one, other] = [a, b];
  while (other !== 0n) [one, other] = [other, one % other];
  return one === 0n ? 1n : one;
}

/** A decimal as it is written: `12.5`, `.5`, `1.2e-3`. */
export function exactDecimal(text: string): Exact {
  const match = /^(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text);
  if (!match) throw new NoValue(`${text} is not a decimal`);
  const [, whole = '', part = '', power = '0'] = match;
  const shift = Number(power) - part.length;
  if (Math.abs(shift) > 5000) throw new NoValue('too many digits');
  const digits = BigInt(whole + part);
  return shift >= 0 ? exact(digits * 10n ** BigInt(shift)) : exact(digits, 10n ** BigInt(-shift));
}

export const ZERO = exact(0);
export const ONE = exact(1);

export function approximate(re: number, im = 0, error = EPSILON * Math.hypot(re, im)): Approximate {
  if (Number.isNaN(re) || Number.isNaN(im) || Number.isNaN(error)) throw new NoValue('not a number');
  // A part within its own error of zero is zero: branch cuts are decided by the sign of what is really there.
  return {
    kind: 'approximate',
    re: Math.abs(re) <= error && Number.isFinite(re) ? 0 : re,
    im: Math.abs(im) <= error ? 0 : im,
    error,
  };
}

export function toApproximate(value: Value): Approximate {
  return value.kind === 'exact' ? approximate(toNumber(value)) : value;
}

function toNumber({ top, bottom }: Exact): number {
  const [a, b] = [bits(top), bits(bottom)];
  if (a < 1000 && b < 1000) return Number(top) / Number(bottom);
  if (a - b > 1000) throw new NoValue('too large');
  if (b - a > 1000) return 0;
  const shift = BigInt(Math.max(0, Math.min(a, b) - 100));
  return Number(top >> shift) / Number(bottom >> shift);
}

export const bits = (integer: bigint): number => integer.toString(16).length * 4;

const size = ({ re, im }: Approximate) => Math.hypot(re, im);

function limited(value: Exact): Exact {
  if (bits(value.top) > MOST_BITS || bits(value.bottom) > MOST_BITS) throw new NoValue('too large');
  return value;
}

export function add(a: Value, b: Value): Value {
  if (a.kind === 'exact' && b.kind === 'exact') {
    return limited(exact(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom));
  }
  const [x, y] = [toApproximate(a), toApproximate(b)];
  const [re, im] = [x.re + y.re, x.im + y.im];
  return approximate(re, im, infinite(re) ? 0 : x.error + y.error + EPSILON * Math.hypot(re, im));
}

export const negative = (a: Value): Value =>
  a.kind === 'exact' ? { ...a, top: -a.top } : { ...a, re: -a.re, im: -a.im };

export const subtract = (a: Value, b: Value): Value => add(a, negative(b));

export function multiply(a: Value, b: Value): Value {
  if (a.kind === 'exact' && b.kind === 'exact') return limited(exact(a.top * b.top, a.bottom * b.bottom));
  if (isZero(a) || isZero(b)) return ZERO;
  const [x, y] = [toApproximate(a), toApproximate(b)];
  if (infinite(x.re) || infinite(y.re)) {
    if (x.im !== 0 || y.im !== 0) throw new NoValue('a complex infinity');
    return approximate(x.re * y.re, 0, 0);
  }
  const error = size(x) * y.error + size(y) * x.error + 4 * EPSILON * size(x) * size(y);
  return approximate(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re, error);
}

export function divide(a: Value, b: Value): Value {
  if (a.kind === 'exact' && b.kind === 'exact') return limited(exact(a.top * b.bottom, a.bottom * b.top));
  const [x, y] = [toApproximate(a), toApproximate(b)];
  if (infinite(y.re)) {
    if (infinite(x.re)) throw new NoValue('∞ / ∞');
    return ZERO;
  }
  const [length, square] = [size(y), y.re * y.re + y.im * y.im];
  if (length <= y.error || square === 0) throw new NoValue('division by zero');
  const quotient = size(x) / length;
  const error = (x.error + quotient * y.error) / (length - y.error) + 4 * EPSILON * quotient;
  return approximate((x.re * y.re + x.im * y.im) / square, (x.im * y.re - x.re * y.im) / square, error);
}

export const isZero = (a: Value): boolean => (a.kind === 'exact' ? a.top === 0n : a.re === 0 && a.im === 0);
export const isInteger = (a: Value): a is Exact => a.kind === 'exact' && a.bottom === 1n;

const infinite = (x: number) => x === Infinity || x === -Infinity;

export function power(base: Value, exponent: Value): Value {
  if (base.kind === 'exact' && exponent.kind === 'exact') {
    const found = exactPower(base, exponent);
    if (found) return found;
    // A negative number has a real root of every odd degree, and that is the one meant.
    if (base.top < 0n && exponent.bottom % 2n === 1n) {
      const positive = power(negative(base), exponent);
      return exponent.top % 2n === 0n ? positive : negative(positive);
    }
  }
  if (isZero(base)) {
    if (toApproximate(exponent).re > 0) return ZERO;
    throw new NoValue('a power of zero');
  }
  const { re } = toApproximate(base);
  if (infinite(re) || infinite(toApproximate(exponent).re)) throw new NoValue('a power of ∞');
  return exponential(multiply(exponent, logarithm(base)));
}

function exactPower(base: Exact, { top, bottom }: Exact): Exact | undefined {
  if (bottom > 64n) return undefined;
  const root = bottom === 1n ? base : exactRoot(base, Number(bottom));
  if (!root) return undefined;
  const times = top < 0n ? -top : top;
  if (root.top === 0n && top < 0n) throw new NoValue('division by zero');
  const grown = Number(times) * Math.max(bits(root.top), bits(root.bottom));
  const isUnit = root.bottom === 1n && (root.top === 0n || root.top === 1n || root.top === -1n);
  if (isUnit) return root.top === -1n && times % 2n === 0n ? ONE : times === 0n ? ONE : root;
  if (grown > MOST_BITS) throw new NoValue('too large');
  const [a, b] = [root.top ** times, root.bottom ** times];
  return top < 0n ? exact(b, a) : exact(a, b);
}

function exactRoot({ top, bottom }: Exact, degree: number): Exact | undefined {
  if (top < 0n && degree % 2 === 0) return undefined;
  const [a, b] = [integerRoot(top < 0n ? -top : top, degree), integerRoot(bottom, degree)];
  return a === undefined || b === undefined ? undefined : exact(top < 0n ? -a : a, b);
}

function integerRoot(value: bigint, degree: number): bigint | undefined {
  if (bits(value) > 2000) return undefined;
  const n = BigInt(degree);
  let [low, high] = [0n, 1n << BigInt(Math.ceil(bits(value) / degree) + 1)];
  while (low < high) {
    const middle = (low + high + 1n) >> 1n;
    if (middle ** n <= value) low = middle;
    else high = middle - 1n;
  }
  return low ** n === value ? low : undefined;
}

export function exponential(a: Value): Value {
  const { re, im, error } = toApproximate(a);
  if (re > 700) throw new NoValue('too large');
  const length = Math.exp(re);
  return approximate(
    length * Math.cos(im),
    length * Math.sin(im),
    length * (error + 4 * EPSILON * (1 + Math.abs(re) + Math.abs(im))),
  );
}

export function logarithm(a: Value): Value {
  if (a.kind === 'exact' && a.top === a.bottom) return ZERO;
  if (isZero(a)) throw new NoValue('the logarithm of zero');
  if (a.kind === 'exact' && bits(a.top) > 1000 && a.top > 0n) {
    const shift = bits(a.top) - 100;
    const rest = logarithm(exact(a.top >> BigInt(shift), a.bottom));
    return add(rest, approximate(shift * Math.LN2));
  }
  const x = toApproximate(a);
  const length = size(x);
  if (length <= x.error) throw new NoValue('the logarithm of zero');
  const [re, im] = [Math.log(length), Math.atan2(x.im, x.re)];
  return approximate(re, im, x.error / (length - x.error) + 4 * EPSILON * (1 + Math.abs(re)));
}

/** The error of `f` at `a`, by how much it changes over the error of `a`. */
export function ofReal(a: Value, f: (x: number) => number): Value {
  const { re, im, error } = toApproximate(a);
  if (im !== 0) throw new NoValue('a function of a complex number');
  const value = f(re);
  const isWhole = a.kind === 'exact' && a.bottom === 1n;
  const step = isWhole ? 0 : Math.max(error, 4 * EPSILON * Math.abs(re), Number.MIN_VALUE);
  const changes = [f(re + step), f(re - step)].map((other) => Math.abs(other - value));
  const change = Math.max(...changes.filter((one) => !Number.isNaN(one)), 0);
  return approximate(value, 0, change + 16 * EPSILON * Math.max(Math.abs(value), Number.MIN_VALUE));
}

/** Equal, unequal, or too close to call because too many digits were lost. */
export function compareValues(a: Value, b: Value): 'equal' | 'unequal' | 'unclear' {
  if (a.kind === 'exact' && b.kind === 'exact') {
    return a.top === b.top && a.bottom === b.bottom ? 'equal' : 'unequal';
  }
  const [x, y] = [toApproximate(a), toApproximate(b)];
  if (infinite(x.re) || infinite(y.re)) return x.re === y.re ? 'equal' : 'unequal';
  const error = 4 * (x.error + y.error);
  if (Math.hypot(x.re - y.re, x.im - y.im) > error) return 'unequal';
  return error > 1e-7 * Math.max(1e-3, size(x), size(y)) ? 'unclear' : 'equal';
}

/** The value as a real number; undefined if it is complex. */
export function realOf(value: Value): number | undefined {
  const { re, im } = toApproximate(value);
  return im === 0 ? re : undefined;
}

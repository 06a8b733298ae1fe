/** Functions of numbers, real where they can be and complex where they must. */
import {
  add,
  approximate,
  compareValues,
  divide,
  exact,
  exponential,
  greatestDivisor,
  isInteger,
  isZero,
  logarithm,
  multiply,
  NoValue,
  negative,
  ofReal,
  power,
  subtract,
  toApproximate,
  type Value,
} from './value.ts';

const I: Value = { kind: 'approximate', re: 0, im: 1, error: 0 };
const ONE = exact(1);
const TWO = exact(2);

export function evaluateFunction(name: string, given: readonly Value[]): Value {
  const known = Object.hasOwn(ALL, name) ? ALL[name] : undefined;
  if (known) {
    if (known.length > given.length) throw new NoValue(`${name} of too few numbers`);
    return known(...given);
  }
  return unknownFunction(name, given);
}

const ALL: Readonly<Record<string, (...given: Value[]) => Value>> = {
  sin: (a) =>
    isReal(a) ? ofReal(a, Math.sin) : divide(subtract(cis(a), cis(negative(a))), multiply(TWO, I)),
  cos: (a) => (isReal(a) ? ofReal(a, Math.cos) : divide(add(cis(a), cis(negative(a))), TWO)),
  tan: (a) => divide(of('sin', a), of('cos', a)),
  cot: (a) => divide(of('cos', a), of('sin', a)),
  sec: (a) => divide(ONE, of('cos', a)),
  csc: (a) => divide(ONE, of('sin', a)),
  cis: (a) => cis(a),
  arcsin: (a) => arcsine(a),
  arccos: (a) => subtract(RIGHT_ANGLE, arcsine(a)),
  arctan: (a) => ofReal(a, Math.atan),
  arccot: (a) => ofReal(a, (x) => Math.PI / 2 - Math.atan(x)),
  arcsec: (a) => subtract(RIGHT_ANGLE, arcsine(divide(ONE, a))),
  arccsc: (a) => arcsine(divide(ONE, a)),
  sinh: (a) => divide(subtract(exponential(a), exponential(negative(a))), TWO),
  cosh: (a) => divide(add(exponential(a), exponential(negative(a))), TWO),
  tanh: (a) => divide(of('sinh', a), of('cosh', a)),
  coth: (a) => divide(of('cosh', a), of('sinh', a)),
  arsinh: (a) => ofReal(a, Math.asinh),
  arcosh: (a) => logarithm(add(a, multiply(root(subtract(a, ONE)), root(add(a, ONE))))),
  artanh: (a) => divide(subtract(logarithm(add(ONE, a)), logarithm(subtract(ONE, a))), TWO),
  ln: logarithm,
  log10: (a) => logarithmTo(exact(10), a),
  log: (base, a) => logarithmTo(base!, a!),
  abs: (a) => {
    if (a.kind === 'exact') return a.top < 0n ? negative(a) : a;
    return approximate(Math.hypot(a.re, a.im), 0, a.error);
  },
  sgn: (a) => exact(isZero(a) ? 0 : toApproximate(a).re > 0 ? 1 : -1),
  Re: (a) => (a.kind === 'exact' ? a : approximate(a.re, 0, a.error)),
  Im: (a) => (a.kind === 'exact' ? exact(0) : approximate(a.im, 0, a.error)),
  arg: (a) => {
    const { re, im, error } = toApproximate(a);
    return approximate(Math.atan2(im, re), 0, error / Math.max(Math.hypot(re, im), Number.MIN_VALUE) + 1e-15);
  },
  floor: (a) => floor(a),
  ceil: (a) => negative(floor(negative(a))),
  mod: (a, b) => subtract(a!, multiply(b!, floor(divide(a!, b!)))),
  factorial: (a) => factorial(a, 1n),
  gamma: (a) => factorial(subtract(a, ONE), 1n),
  'double-factorial': (a) => factorial(a, 2n),
  binom: (n, k) => binomial(n!, k!),
  gcd: (...all) => exact(integers(all).reduce(greatestDivisor)),
  lcm: (...all) => exact(integers(all).reduce((a, b) => (a / greatestDivisor(a, b)) * b)),
  max: (...all) => all.reduce((a, b) => (isLess(a, b) ? b : a)),
  min: (...all) => all.reduce((a, b) => (isLess(b, a) ? b : a)),
};

const of = (name: string, a: Value) => ALL[name]!(a);

const root = (a: Value) => power(a, exact(1, 2));
const RIGHT_ANGLE = approximate(Math.PI / 2);

/** Outside of −1 to 1 it is complex: −i ln(iz + √(1 − z²)). */
function arcsine(a: Value): Value {
  const { re, im } = toApproximate(a);
  if (im === 0 && Math.abs(re) <= 1) return ofReal(a, Math.asin);
  const inner = add(multiply(I, a), root(subtract(ONE, multiply(a, a))));
  return negative(multiply(I, logarithm(inner)));
}

const isReal = (a: Value) => a.kind === 'exact' || a.im === 0;

const cis = (a: Value) => exponential(multiply(I, a));

function logarithmTo(base: Value, a: Value): Value {
  if (isInteger(base) && isInteger(a) && base.top > 1n && a.top > 0n) {
    let [rest, times] = [a.top, 0];
    while (rest % base.top === 0n && times < 1000) {
      rest /= base.top;
      times++;
    }
    if (rest === 1n) return exact(times);
  }
  return divide(logarithm(a), logarithm(base));
}

function floor(a: Value): Value {
  if (a.kind === 'exact')
    return exact(a.top >= 0n ? a.top / a.bottom : -((-a.top + a.bottom - 1n) / a.bottom));
  if (a.im !== 0 || Math.floor(a.re - a.error) !== Math.floor(a.re + a.error))
    throw new NoValue('a floor in doubt');
  return exact(BigInt(Math.floor(a.re)));
}

const LARGEST_FACTORIAL = 5000n;

function factorial(a: Value, step: bigint): Value {
  if (isInteger(a) && a.top >= 0n) {
    if (a.top > LARGEST_FACTORIAL) throw new NoValue('too large');
    let product = 1n;
    for (let factor = a.top; factor > 1n; factor -= step) product *= factor;
    return exact(product);
  }
  if (step !== 1n) throw new NoValue('a double factorial of a fraction');
  return ofReal(a, (x) => gamma(x + 1));
}

/** Lanczos's approximation, with g = 7 and nine terms: about 15 digits. */
function gamma(x: number): number {
  if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * gamma(1 - x));
  const at = x - 1;
  const sum = LANCZOS.reduce((total, term, index) => total + (index === 0 ? term : term / (at + index)), 0);
  const t = at + 7.5;
  return Math.sqrt(2 * Math.PI) * t ** (at + 0.5) * Math.exp(-t) * sum;
}

const LANCZOS = [
  ...[0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059],
  ...[12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7],
];

function binomial(n: Value, k: Value): Value {
  if (isInteger(k) && k.top >= 0n && k.top <= 1000n) {
    let value: Value = ONE;
    for (let at = 0n; at < k.top; at++) {
      value = divide(multiply(value, subtract(n, exact(at))), exact(at + 1n));
    }
    return value;
  }
  if (isInteger(n) && isInteger(k) && 2n * k.top > n.top) return binomial(n, subtract(n, k));
  return divide(factorial(n, 1n), multiply(factorial(k, 1n), factorial(subtract(n, k), 1n)));
}

function integers(values: readonly Value[]): bigint[] {
  return values.map((value) => {
    if (!isInteger(value)) throw new NoValue('not an integer');
    return value.top < 0n ? -value.top : value.top;
  });
}

function isLess(a: Value, b: Value): boolean {
  const [x, y] = [toApproximate(a), toApproximate(b)];
  if (x.im !== 0 || y.im !== 0) throw new NoValue('complex numbers have no order');
  return compareValues(a, b) === 'unequal' && x.re < y.re;
}

/** A function that is only named, such as f: some smooth function, another for every name. */
function unknownFunction(name: string, given: readonly Value[]): Value {
  let seed = 7;
  for (const character of name) seed = (seed * 31 + character.codePointAt(0)!) % 1009;
  return given.reduce<Value>(
    (sum, value, index) =>
      add(
        multiply(sum, exact(2)),
        ofReal(value, (x) => Math.sin(1.7 * x + seed + index)),
      ),
    power(exact(seed), exact(1, 2)),
  );
}

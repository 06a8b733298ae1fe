import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mathsCases } from '../../../test/golden/maths/cases.ts';
import { mathsEqual } from './maths-equal.ts';

const kinds = [...new Set(mathsCases().map(({ kind }) => kind))];

test.each(kinds)('%s: right answers are right and wrong ones wrong', (kind) => {
  const cases = mathsCases().filter((one) => one.kind === kind);
  const mistaken = cases.filter(({ answer, truth, isRight }) => mathsEqual(answer, truth) !== isRight);
  expect(mistaken).toEqual([]);
});

test('SymPy says the same of eighty pairs of expressions', () => {
  const file = new URL('../../../test/golden/maths/pairs.json', import.meta.url);
  const { pairs } = JSON.parse(readFileSync(file, 'utf8')) as {
    pairs: { a: string; b: string; same: boolean }[];
  };
  expect(pairs).toHaveLength(80);
  expect(pairs.map(({ a, b }) => ({ a, b, same: mathsEqual(a, b) }))).toEqual(
    pairs.map(({ a, b, same }) => ({ a, b, same })),
  );
});

test('decimals are compared to as many places as are asked for', () => {
  expect(mathsEqual('3.14', '\\pi')).toBe(false);
  expect(mathsEqual('3.14', '\\pi', { decimals: 2 })).toBe(true);
  expect(mathsEqual('3.13', '\\pi', { decimals: 2 })).toBe(false);
});

const integer = fc.integer({ min: -999, max: 999 });
const natural = fc.integer({ min: 1, max: 999 });
const fraction = fc.tuple(integer, natural);

/** Ways to write a number that do not change it. */
const written = (top: number, bottom: number): string[] => [
  `\\frac{${top}}{${bottom}}`,
  `\\dfrac{${top}}{${bottom}}`,
  `$${top}/${bottom}$`,
  `\\boxed{\\tfrac{${top}}{${bottom}}}`,
  `\\left(\\frac{${2 * top}}{${2 * bottom}}\\right)`,
  `x = \\frac{ ${top} }{ ${bottom} }`,
  `\\frac{${top}}{${bottom}}\\text{ cm}`,
  `So the answer is $\\frac{${top}}{${bottom}}$.`,
];

describe('for every number', () => {
  test('how a fraction is written does not matter, another numerator does', () => {
    fc.assert(
      fc.property(fraction, fc.nat(7), fc.nat(7), ([top, bottom], one, other) => {
        const truth = written(top, bottom)[one]!;
        expect(mathsEqual(written(top, bottom)[other]!, truth)).toBe(true);
        expect(mathsEqual(written(top + 1, bottom)[other]!, truth)).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

  test('a decimal is its fraction, and not when a digit changes', () => {
    fc.assert(
      fc.property(integer, fc.integer({ min: 1, max: 5 }), (top, places) => {
        const bottom = 10 ** places;
        const decimal = (value: number) => (value / bottom).toFixed(places);
        expect(mathsEqual(decimal(top), `\\frac{${top}}{${bottom}}`)).toBe(true);
        expect(mathsEqual(decimal(top + 1), `\\frac{${top}}{${bottom}}`)).toBe(false);
        expect(mathsEqual(`\\frac{${top}}{${bottom}}`, decimal(top + 1))).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  test('thousands separators do not matter, digits do', () => {
    const large = fc.bigInt({ min: 1000n, max: 10n ** 30n });
    fc.assert(
      fc.property(large, fc.constantFrom(',', '{,}', '\\,', ',\\!'), (value, separator) => {
        const separated = value.toString().replace(/\B(?=(\d{3})+$)/g, separator);
        expect(mathsEqual(separated, value.toString())).toBe(true);
        expect(mathsEqual(separated, (value + 1n).toString())).toBe(false);
        expect(mathsEqual(separated.replace(separator, ', '), value.toString())).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  test('sets are equal in any order, tuples only in theirs', () => {
    fc.assert(
      fc.property(fc.uniqueArray(integer, { minLength: 2, maxLength: 6 }), (items) => {
        const turned = [...items.slice(1), items[0]!];
        expect(mathsEqual(`\\{${turned.join(', ')}\\}`, `\\left\\{${items.join(',')}\\right\\}`)).toBe(true);
        expect(mathsEqual(turned.join(' , '), items.join(', '))).toBe(true);
        expect(mathsEqual(`(${turned.join(', ')})`, `(${items.join(',')})`)).toBe(false);
        expect(mathsEqual(`\\{${items.slice(1).join(', ')}\\}`, `\\{${items.join(',')}\\}`)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  test('an interval is its inequality, and another bound or bracket is not', () => {
    fc.assert(
      fc.property(integer, natural, fc.boolean(), fc.boolean(), (low, width, hasLow, hasHigh) => {
        const high = low + width;
        const interval = `${hasLow ? '[' : '('}${low}, ${high}${hasHigh ? ']' : ')'}`;
        const sign = (includes: boolean) => (includes ? '\\le' : '<');
        expect(mathsEqual(`${low} ${sign(hasLow)} x ${sign(hasHigh)} ${high}`, interval)).toBe(true);
        expect(mathsEqual(interval, `${low} ${sign(hasLow)} x ${sign(hasHigh)} ${high}`)).toBe(true);
        expect(mathsEqual(`${low} ${sign(!hasLow)} x ${sign(hasHigh)} ${high}`, interval)).toBe(false);
        expect(mathsEqual(`${low} ${sign(hasLow)} x ${sign(hasHigh)} ${high + 1}`, interval)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  test('a product of two lines is its expansion, and no longer when a coefficient changes', () => {
    const term = (value: number) => `${value < 0 ? '-' : '+'}${Math.abs(value)}`;
    fc.assert(
      fc.property(natural, integer, natural, integer, (a, b, c, d) => {
        const product = `(${a}x${term(b)})(${c}x${term(d)})`;
        const [two, one, none] = [a * c, a * d + b * c, b * d];
        expect(mathsEqual(product, `${two}x^2${term(one)}x${term(none)}`)).toBe(true);
        expect(mathsEqual(`${two}x^2${term(one)}x${term(none)}`, product)).toBe(true);
        expect(mathsEqual(product, `${two}x^2${term(one + 1)}x${term(none)}`)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  test('roots are equal when their squares are', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 99 }), fc.integer({ min: 2, max: 99 }), (factor, inside) => {
        expect(mathsEqual(`${factor}\\sqrt{${inside}}`, `\\sqrt{${factor * factor * inside}}`)).toBe(true);
        expect(mathsEqual(`${factor}\\sqrt{${inside}}`, `\\sqrt{${factor * factor * inside + 1}}`)).toBe(
          false,
        );
      }),
      { numRuns: 100 },
    );
  });
});

const FRAGMENTS = [
  ...[
    '\\frac',
    '\\sqrt',
    '{',
    '}',
    '(',
    ')',
    '[',
    ']',
    '|',
    ',',
    '.',
    '\\{',
    '\\}',
    '$',
    '\\boxed{',
    '^',
    '_',
    '!',
    '%',
  ],
  ...[
    '1',
    '23',
    '4.5',
    'x',
    'y',
    'e',
    'i',
    '+',
    '-',
    '/',
    '=',
    '<',
    '\\le',
    '\\pm',
    '\\cup',
    '\\text{',
    'and',
    ' ',
  ],
  ...[
    '\\begin{pmatrix}',
    '\\end{pmatrix}',
    '&',
    '\\\\',
    '\\sum_{k=1}^{9}',
    '\\infty',
    '\\sin',
    '\\log_',
    '^{999999}',
    '9!',
  ],
];

const strange = fc
  .array(fc.oneof(fc.constantFrom(...FRAGMENTS), fc.string({ maxLength: 3 })), { maxLength: 40 })
  .map((parts) => parts.join(''));

test('no two texts make it throw', () => {
  fc.assert(
    fc.property(strange, strange, (one, other) => {
      expect(typeof mathsEqual(one, other)).toBe('boolean');
      expect(typeof mathsEqual(one, one)).toBe('boolean');
    }),
    { numRuns: 1000 },
  );
});

/** Texts that take long to read, to multiply out or to compare, if nothing stops them. */
const HARD = [
  '9^{9^{9^{9}}}',
  '999999!!!!!',
  '\\binom{10^9}{10^8}',
  '(((((1+x)^{99})^{99})^{99})^{99})^{99}',
  '('.repeat(1500),
  '\\frac{'.repeat(300),
  'x '.repeat(900),
  '2^'.repeat(700).concat('2'),
  '-'.repeat(1900),
  `\\{${Array.from({ length: 600 }, (_, index) => index).join(',')}\\}`,
  '\\sum_{a=1}^{999}\\sum_{b=1}^{999}\\sum_{c=1}^{999}abc',
  `${'x+'.repeat(700)}1`,
  '1e999999',
  '2^{99999}+'.repeat(20).concat('1'),
  '\\prod_{k=1}^{999} k^{k}',
  '|'.repeat(1000),
  '$1$,'.repeat(500),
  'answer is '.repeat(400),
  '\\boxed{1} '.repeat(20_000),
  '\\boxed{'.repeat(20_000),
];

test.each(HARD.map((text) => [text.slice(0, 40), text] as const))(
  '%s is decided within a second',
  (_, text) => {
    const began = process.cpuUsage();
    for (const other of ['7', text, '\\{1,2\\}']) mathsEqual(text, other);
    expect(process.cpuUsage(began).user).toBeLessThan(1_000_000);
  },
);

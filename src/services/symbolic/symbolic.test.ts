import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { toLatex } from './notation.ts';
import { openSymbolicMaths } from './symbolic.ts';

const maths = openSymbolicMaths({ milliseconds: 20_000 });
afterAll(() => maths.close());

test.each([
  ['2x+x', '3x'],
  ['(x+1)^2', 'x^2+2x+1'],
  ['x**2 - 4', '(x-2)(x+2)'],
  ['\\frac{x^2-1}{x-1}', 'x+1'],
  ['sin(x)^2 + cos(x)^2', '1'],
  ['\\frac1x+\\frac1y', '\\frac{x+y}{xy}'],
  ['n(n+1)/2', '\\frac{n^2+n}{2}'],
  ['e^{x+y}', 'e^x e^y'],
  ['x^12', 'x^{12}'],
  ['\\frac{\\pi}{4}', 'arctan(1)'],
  ['\\binom{5}{2}', '10'],
  ['x = 3', '3'],
  ['y=2x+1', '2x+1'],
  ['x^2+y^2=1', 'y^2=1-x^2'],
  ['\\frac12', '0.5'],
])(
  '%s is %s',
  async (answer, truth) => {
    expect(await maths.isSame(answer, truth)).toBe(true);
  },
  60_000,
);

test.each([
  ['x(x+1)', 'x^2+x+1'],
  ['a/b', 'b/a'],
  ['sqrt(x^2)', 'x'],
  ['|x|', 'x'],
  ['x = 4', '3'],
  ['x^2+y^2=1', 'x^2-y^2=1'],
  ['2+*3', '5'],
  ['', '5'],
  ['the answer', '5'],
  [`${'x+'.repeat(300)}1`, '300x+1'], // too long to try
])(
  '%s is not %s',
  async (answer, truth) => {
    expect(await maths.isSame(answer, truth)).toBe(false);
  },
  60_000,
);

test('SymPy says the same of eighty pairs', async () => {
  const file = new URL('../../../test/golden/symbolic/pairs.json', import.meta.url);
  const { pairs } = JSON.parse(readFileSync(file, 'utf8')) as {
    pairs: { kind: string; a: string; b: string; same: boolean }[];
  };
  expect(pairs).toHaveLength(80);
  const found = [];
  for (const { kind, a, b } of pairs) found.push({ kind, a, b, same: await maths.isSame(a, b) });
  expect(found).toEqual(pairs);
}, 120_000);

test('a product of two lines is its expansion, and no longer when a coefficient changes', async () => {
  const coefficient = fc.integer({ min: -9, max: 9 });
  const term = (value: number) => `${value < 0 ? '-' : '+'}${Math.abs(value)}`;
  await fc.assert(
    fc.asyncProperty(coefficient, coefficient, coefficient, coefficient, async (a, b, c, d) => {
      const product = `(${a}x${term(b)})(${c}x${term(d)})`;
      const [two, one, none] = [a * c, a * d + b * c, b * d];
      expect(await maths.isSame(product, `${two}x^2${term(one)}x${term(none)}`)).toBe(true);
      expect(await maths.isSame(product, `${two}x^2${term(one + 1)}x${term(none)}`)).toBe(false);
    }),
    { numRuns: 5 },
  );
}, 60_000);

test('what one question says of a letter is not remembered for the next', async () => {
  expect(await maths.isSame('f(x)+1', '1+f(x)')).toBe(true);
  expect(await maths.isSame('f+f', '2f')).toBe(true);
}, 60_000);

test.each([
  ['differentiate', 'x^3', '3x^2'],
  ['expand', '(x+1)^3', 'x^3+3x^2+3x+1'],
  ['factor', 'x^2-4', '(x-2)(x+2)'],
  ['simplify', '\\frac{x^2-1}{x-1}', 'x+1'],
  ['evaluate', '1/3 + 1/6', '1/2'],
  ['approximate', 'sqrt(2)', '1.4142135623731'],
] as const)(
  'to %s %s',
  async (operation, expression, result) => {
    expect(await maths.isSame(await maths.compute({ operation, expression, variable: 'x' }), result)).toBe(
      true,
    );
  },
  60_000,
);

test('integrals and equations', async () => {
  const ask = (operation: 'integrate' | 'solve', expression: string, more = {}) =>
    maths.compute({ operation, expression, variable: 'x', ...more });
  expect(await ask('integrate', 'x^2', { from: '0', to: '3' })).toBe('9');
  expect(await ask('integrate', '2x')).toBe('x^2 + C');
  expect((await ask('solve', 'x^2 - 5x + 6 = 0')).split(', ').sort()).toEqual(['x = 2', 'x = 3']);
  expect(await ask('solve', '2t = 10', { variable: 't' })).toBe('t = 5');
  await expect(ask('solve', 'x = x + 1')).rejects.toThrow('no solution for x was found');
  await expect(ask('integrate', 'x^x')).rejects.toThrow('no closed form was found');
  await expect(ask('solve', '2 +* 3')).rejects.toThrow('cannot be read as mathematics');
}, 60_000);

test('what takes too long is ended, the event loop stays free, and the next question is answered', async () => {
  const hasty = openSymbolicMaths({ milliseconds: 1500 });
  await hasty.compute({ operation: 'evaluate', expression: '1+1', variable: 'x' });
  let beats = 0;
  const heart = setInterval(() => beats++, 20);
  const long = { operation: 'expand', expression: '(a+b+c+d+f)^{80}', variable: 'x' } as const;
  await expect(hasty.compute(long)).rejects.toThrow('took longer than 1500 ms');
  clearInterval(heart);
  expect(beats).toBeGreaterThan(10);
  await expect(hasty.compute(long, AbortSignal.timeout(50))).rejects.toThrow(/timeout/i);
  await hasty.close();
}, 90_000);

test('mathematics as it is typed becomes LaTeX', () => {
  expect(toLatex('$sqrt(2*(x+1))^12$')).toBe('\\sqrt{2*(x+1)}^{12}');
  expect(toLatex('2^(x+1) × √3 − π²')).toBe('2^{x+1} \\times  \\sqrt{3} - \\pi ^2');
  expect(toLatex('\\sin(x) + arcsin(x) + cost')).toBe('\\sin(x) + \\arcsin(x) + cost');
});

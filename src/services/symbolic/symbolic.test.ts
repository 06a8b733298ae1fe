import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasComputeEngine } from '../../../test/needs.ts';
import { mathsEqual } from '../../lib/maths/maths-equal.ts';
import { toLatex } from './notation.ts';
import { openSymbolicMaths } from './symbolic.ts';

describe.skipIf(!hasComputeEngine)('with an algebra system', () => {
  let maths: ReturnType<typeof openSymbolicMaths>;
  beforeAll(() => {
    maths = openSymbolicMaths({ milliseconds: 20_000 });
  });
  afterAll(() => maths.close());

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
      expect(mathsEqual(await maths.compute({ operation, expression, variable: 'x' }), result)).toBe(true);
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
});

test('mathematics as it is typed becomes LaTeX', () => {
  expect(toLatex('$sqrt(2*(x+1))^12$')).toBe('\\sqrt{2*(x+1)}^{12}');
  expect(toLatex('2^(x+1) × √3 − π²')).toBe('2^{x+1} \\times  \\sqrt{3} - \\pi ^2');
  expect(toLatex('\\sin(x) + arcsin(x) + cost')).toBe('\\sin(x) + \\arcsin(x) + cost');
});

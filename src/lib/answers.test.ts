import { describe, expect, test } from 'vitest';
import { isSameExpression, isSameNumber, lastBoxed, normalAnswer, wordF1 } from './answers.ts';

describe('mathematics', () => {
  test.each([
    ['\\frac{1}{2}', '0.5'],
    ['\\frac12', '\\dfrac{2}{4}'],
    ['2\\sqrt{3}', '\\sqrt{12}'],
    ['\\sqrt2', '1.41421356237'],
    ['1{,}000', '1000'],
    ['50\\%', '\\frac{1}{2}'],
    ['$\\pi/2$', '1.5707963268'],
    ['3\\pi', '9.42477796'],
    ['90^\\circ', '90'],
    ['(1, \\frac{1}{2})', '(1,0.5)'],
    ['[0, 1)', '[0,1)'],
    ['\\text{no}', 'no'],
    ['2^{10}', '1024'],
    ['\\{1, 2\\}', '\\{1,2\\}'],
    ['\\boxed{\\frac{3}{4}}', '0.75'],
    ['x+1', 'x + 1'],
    ['72.', '72'],
  ])('%s is %s', (answer, truth) => {
    expect(isSameExpression(answer, truth)).toBe(true);
    expect(isSameExpression(truth, answer)).toBe(true);
  });

  test.each([
    ['\\frac{1}{3}', '0.33'],
    ['(1, 2)', '(2, 1)'],
    ['[0, 1)', '(0, 1)'],
    ['(1,2)', '(1,2,3)'],
    ['', ''],
    ['2x', '3x'],
    ['process.exit()', '1'],
    ['1/0', '2/0'],
  ])('%s is not %s', (answer, truth) => {
    expect(isSameExpression(answer, truth)).toBe(false);
  });

  test('the last box is read with its braces matched', () => {
    expect(lastBoxed('first \\boxed{1}, then \\boxed{\\frac{1}{2}} done')).toBe('\\frac{1}{2}');
    expect(lastBoxed('\\boxed{1')).toBeUndefined();
    expect(lastBoxed('none')).toBeUndefined();
  });
});

test('numbers are compared without commas and currency', () => {
  expect(isSameNumber('It costs $1,234.', '1234')).toBe(true);
  expect(isSameNumber('none', 'none')).toBe(false);
});

// By hand, from the definitions in SQuAD's evaluation script.
test('words are compared as SQuAD does', () => {
  expect(normalAnswer('The  Eiffel-Tower, an icon!')).toBe('eiffeltower icon');
  expect(wordF1('the cat sat', 'a cat')).toBeCloseTo(2 / 3); // {cat, sat} and {cat}: precision ½, recall 1
  expect(wordF1('cat cat', 'cat')).toBeCloseTo(2 / 3); // the second cat is not common
  expect(wordF1('dog', 'cat')).toBe(0);
  expect(wordF1('', 'the')).toBe(1); // nothing on both sides
});

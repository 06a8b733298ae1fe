import { expect, test } from 'vitest';
import { isSameNumber, normalAnswer, wordF1 } from './answers.ts';

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

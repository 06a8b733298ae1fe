import { expect, test } from 'vitest';
import { gsm8kScore } from './gsm8k.ts';

test.each([
  ['So it is #### 1,234', '1234', 1],
  ['first #### 5, no: #### 72', '72', 1],
  ['The answer is 72', '72', 0],
  ['#### $18', '18', 0], // the pattern wants the number right after the marks
  ['#### -3.5', '-3.5', 1],
  ['#### 10', '11', 0],
  [`#### 7${' '.repeat(300)}`, '7', 0], // verl reads the last 300 characters
])('strict: %j against %s is %d', (solution, truth, score) => {
  expect(gsm8kScore(solution, truth)).toBe(score);
});

test.each([
  ['The answer is 72.', '72', 0], // the last number is read with its full stop, as verl does
  ['The answer is 72 apples', '72', 1],
  ['no number . at all', '72', 0],
  ['first 72 then 71', '72', 0],
])('flexible: %j against %s is %d', (solution, truth, score) => {
  expect(gsm8kScore(solution, truth, { method: 'flexible' })).toBe(score);
});

test('a wrong answer in the right form can be worth something', () => {
  expect(gsm8kScore('#### 5', '6', { formatScore: 0.1 })).toBe(0.1);
  expect(gsm8kScore('5', '6', { formatScore: 0.1 })).toBe(0);
});

import { expect, test } from 'vitest';
import { demonstration, ownDemonstration } from './demonstrations.ts';
import { problemOf } from './problems.ts';
import { answerOf } from './solver.ts';

test('an annotated solution becomes replies that call the calculator and use its results', () => {
  const problem = problemOf({
    question: 'A baker makes 12 rolls an hour for 3 hours and sells half. How many rolls are left?',
    answer: 'He makes 12*3 = <<12*3=36>>36 rolls.\nHe sells half, so 36/2 = <<36/2=18>>18 are left.\n#### 18',
  });
  const told = demonstration(problem)!.map((message) =>
    message.role === 'assistant'
      ? [message.content, message.toolCalls?.map((call) => call.arguments.expression)]
      : [message.role, message.content],
  );
  expect(told.slice(2)).toEqual([
    ['He makes 12*3 =', ['12*3']],
    ['tool', '36'],
    ['36 rolls.\nHe sells half, so 36/2 =', ['36/2']],
    ['tool', '18'],
    ['18 are left.\nThe answer is 18.', undefined],
  ]);
});

test('a solution whose annotation is wrong, or whose answer no call gives, is no demonstration', () => {
  const wrong = { question: 'q', answer: 'It is 2*3 = <<2*3=7>>7.\n#### 7' };
  const unrelated = { question: 'q', answer: 'It is 2*3 = <<2*3=6>>6, so one more.\n#### 7' };
  expect(demonstration(problemOf(wrong))).toBeUndefined();
  expect(demonstration(problemOf(unrelated))).toBeUndefined();
});

const bakery = problemOf({
  question: 'A baker makes 12 rolls an hour for 3 hours and sells half for $0.50 each. What does he earn?',
  answer: '#### 9',
});
const callsOf = (written: string) =>
  ownDemonstration(bakery, written)?.map((message) =>
    message.role === 'assistant'
      ? [message.content, message.toolCalls?.map((call) => call.arguments.expression)]
      : [message.role, message.content],
  );

test("the model's own solution becomes the dialogue in which it had the tool", () => {
  const written =
    'First, the rolls he makes:\n\\[ 12 \\times 3 = 36 \\text{ rolls} \\]\nHe sells half of them, $36 / 2 = 18$ rolls.\n' +
    'So he earns 18 × $0.50 = $9.\n\nThe answer is 9.';
  expect(callsOf(written)?.slice(2)).toEqual([
    ['First, the rolls he makes:\n\\[ 12 \\times 3 =', ['12 * 3']],
    ['tool', '36'],
    ['36 \\text{ rolls} \\]\nHe sells half of them, $36 / 2 =', ['36 / 2']],
    ['tool', '18'],
    ['18$ rolls.\nSo he earns 18 × $0.50 =', ['18 * 0.50']],
    ['tool', '9'],
    ['$9.\nThe answer is 9.', undefined],
  ]);
});

test('a solution of the model that is wrong, miscalculates, or has no equation for the answer is none', () => {
  expect(callsOf('12 * 3 = 36. The answer is 36.')).toBeUndefined();
  expect(callsOf('12 * 3 = 38, half is 18, 18 * 0.5 = 9. The answer is 9.')).toBeUndefined();
  expect(callsOf('12 * 3 = 36. Half of them at 50 cents make 9. The answer is 9.')).toBeUndefined();
  expect(callsOf('With x = 3 it is 9. The answer is 9.')).toBeUndefined();
});

test('the answer is the number said to be it, else the last number', () => {
  expect(answerOf('18 are left.\nThe answer is 1,018.')).toBe(1018);
  expect(answerOf('The answer is $18.50.')).toBe(18.5);
  expect(answerOf('first 3, then -7')).toBe(-7);
  expect(answerOf('none')).toBeUndefined();
});

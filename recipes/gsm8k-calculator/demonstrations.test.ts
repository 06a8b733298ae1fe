import { expect, test } from 'vitest';
import { demonstration } from './demonstrations.ts';
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

test('the answer is the number said to be it, else the last number', () => {
  expect(answerOf('18 are left.\nThe answer is 1,018.')).toBe(1018);
  expect(answerOf('The answer is $18.50.')).toBe(18.5);
  expect(answerOf('first 3, then -7')).toBe(-7);
  expect(answerOf('none')).toBeUndefined();
});

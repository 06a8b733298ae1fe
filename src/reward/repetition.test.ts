import { expect, test } from 'vitest';
import { type ScorerContext, scorerNamed } from './by-data-source.ts';

/** What a model that has lost its way writes: the same few tokens to the end of its context. */
const REPEATED = [
  '<answer>',
  '</answer>',
  '<think></think>\\boxed{',
  '\\boxed{{',
  '\\frac{',
  '((((1,',
  '1',
  '.,',
  '#### ',
  'Answer: \n',
  'answer is ',
  '```\n',
  '-',
  ' ',
  '\\sqrt',
];
const NAMES = [
  ...['gsm8k', 'gsm8k_flexible', 'maths', 'boxed', 'answer_line', 'geometry'],
  ...['exact_match', 'f1', 'tagged_exact_match', 'multiple_choice'],
];

test.each(NAMES)('%s scores a reply of 200,000 characters of repetition at once', async (name) => {
  const score = scorerNamed(name);
  for (const part of REPEATED) {
    const solution = `<think>${part.repeat(Math.ceil(200_000 / part.length))}`;
    const context: ScorerContext = {
      solution,
      truth: '7',
      sandbox: () => {
        throw new Error('no code is run here');
      },
      signal: new AbortController().signal,
    };
    const began = process.cpuUsage();
    const value = await score(context);
    const { user } = process.cpuUsage(began);
    expect(user, `${JSON.stringify(part)} took too long`).toBeLessThan(1_500_000);
    expect(typeof value === 'number' ? value : value.score).toBeLessThanOrEqual(0.1);
  }
});

test('the answer between tags is the last that is closed', async () => {
  const score = scorerNamed('tagged_exact_match');
  const of = (solution: string) =>
    score({
      solution,
      truth: 'b',
      sandbox: () => {
        throw new Error('no code is run here');
      },
      signal: new AbortController().signal,
    });
  expect(await of('<answer>a</answer> then <answer>\nb </answer>')).toBe(1);
  expect(await of('<answer>b</answer> then <answer>a')).toBe(1);
  expect(await of('<answer>b</answer> then <answer>a</answer>')).toBe(0);
  expect(await of('</answer>b<answer>')).toBe(0);
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FAMILIES } from './families.ts';
import { createProblem, createProblems, type Problem, type Split } from './problems.ts';

const SPLITS: readonly Split[] = ['train', 'validation', 'test', 'unseen'];
const numbersIn = (text: string) => (text.match(/\d+/g) ?? []).map(Number);
const facts = ({ family, numbers }: Problem) => `${family} ${Object.values(numbers).join(' ')}`;

test('no test problem occurs in training, by its text or by its family and numbers, whatever the seeds', () => {
  const training = [1, 2, 3, 4].flatMap((seed) => createProblems('train', seed, 9_000));
  const texts = new Set(training.map(({ question }) => question));
  const numbers = new Set(training.map(facts));
  for (const split of ['validation', 'test', 'unseen'] as const) {
    const held = [1, 2, 3, 4].flatMap((seed) => createProblems(split, seed, 900));
    expect(held.filter(({ question }) => texts.has(question))).toEqual([]);
    expect(held.filter((problem) => numbers.has(facts(problem)))).toEqual([]);
  }
  const tests = new Set(createProblems('test', 1, 900).map(facts));
  expect(createProblems('validation', 1, 900).filter((problem) => tests.has(facts(problem)))).toEqual([]);
});

test('unseen problems have a wording or numbers that training never has', () => {
  const combination = ({ family, wordings }: Problem) => `${family} ${wordings}`;
  const training = createProblems('train', 7, 20_000);
  const combinations = new Set(training.map(combination));
  expect(combinations.size).toBe(FAMILIES.length * 18);
  const largest = Math.max(
    ...training.filter(({ family }) => family === 'more').map(({ numbers }) => numbers.a!),
  );
  expect(largest).toBeLessThan(700);
  for (const problem of createProblems('unseen', 7, 600)) {
    const newWording = !combinations.has(combination(problem));
    const newNumbers = Object.values(problem.numbers).some(
      (value) => (value >= 80 && value < 100) || (value >= 700 && value < 1000) || value >= 7000,
    );
    expect(newWording || newNumbers).toBe(true);
  }
});

test('the answer follows from the numbers of the text, and answering with the first result is right in under 30 %', () => {
  // Each family's answer and first result, written out by hand.
  const formulas: Record<string, (n: number[]) => [first: number, answer: number]> = {
    sold: ([a, b, c]) => [a! * b!, a! * b! - c!],
    shared: ([a, b, c]) => [a! + b!, (a! + b!) / c!],
    more: ([a, b]) => [a! + b!, a! + a! + b!],
    change: ([a, b, c]) => [a! * b!, c! - a! * b!],
    fewer: ([a, b]) => [a! - b!, a! + a! - b!],
    stored: ([a, b, c]) => [a! * b!, a! * b! + c!],
    kinds: ([a, b, c, d]) => [a! * b!, a! * b! + c! * d!],
    saved: ([a, b, c]) => [a! - b!, (a! - b!) * c!],
    week: ([a, b, c, d]) => [a! + b!, a! + b! + c! - d!],
  };
  const problems = SPLITS.flatMap((split) => createProblems(split, 3, 900));
  let rightAtFirst = 0;
  for (const { family, question, answer, distractor } of problems) {
    const said = numbersIn(question).filter((value) => value !== distractor);
    const [first, expected] = formulas[family]!(said);
    expect(answer, question).toBe(expected);
    if (first === answer) rightAtFirst++;
  }
  expect(rightAtFirst / problems.length).toBeLessThan(0.3);
});

test('about 40 % of problems have a sentence with a number that plays no part', () => {
  const problems = createProblems('train', 1, 4_000);
  const distracted = problems.filter(({ distractor }) => distractor !== undefined);
  expect(distracted.length / problems.length).toBeGreaterThan(0.37);
  expect(distracted.length / problems.length).toBeLessThan(0.43);
  for (const { question, distractor, numbers } of distracted) {
    expect(numbersIn(question)).toContain(distractor);
    expect(Object.values(numbers)).not.toContain(distractor);
  }
});

test('the same coordinates give the same problem, whatever was generated before', () => {
  fc.assert(
    fc.property(fc.constantFrom(...SPLITS), fc.nat(1000), fc.nat(1000), (split, seed, index) => {
      expect(createProblem(split, seed, index)).toEqual(createProblem(split, seed, index));
      const { question } = createProblem(split, seed, index);
      expect(question).not.toMatch(/[{}]|undefined|NaN/);
      for (const value of numbersIn(question)) expect(String(value).length).toBeGreaterThanOrEqual(2);
    }),
    { numRuns: 200 },
  );
});

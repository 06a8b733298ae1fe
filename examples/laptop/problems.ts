/**
 * SVAMP: one-step and two-step word problems with their equations (github.com/arkilpatel/SVAMP, MIT). GSM8K's short ones
 * (github.com/openai/grade-school-math, MIT) are a test of what was never trained on.
 */
import { readFileSync } from 'node:fs';
import { arrayDataset, type Dataset } from 'rollcall';
import { createRandom, hashSeed } from 'rollcall/datasets';
import { withDrawnCall } from './drawn-calls.ts';
import { withOtherNumbers } from './other-numbers.ts';

export type Problem = {
  readonly question: string;
  /** `76 - 25` */
  readonly expression: string;
  readonly answer: number;
};

interface SvampRow {
  readonly Body: string;
  readonly Question: string;
  readonly Equation: string;
  readonly Answer: number;
}

/** 700 to train on, of which 100 are for tuning a recipe and left out meanwhile, and 300 that are only measured. */
const isTest = (index: number) => index % 10 < 3;
const isTuning = (index: number) => index % 10 === 9;

/** `fit`: training without the tuning problems. */
export type Split = 'train' | 'fit' | 'tuning' | 'test';
const BELONGS: Readonly<Record<Split, (index: number) => boolean>> = {
  train: (index) => !isTest(index),
  fit: (index) => !isTest(index) && !isTuning(index),
  tuning: isTuning,
  test: isTest,
};

export function problemOf({ Body, Question, Equation, Answer }: SvampRow): Problem {
  const body = Body.trim();
  const expression = Equation.replace(/\.0\b/g, '')
    .replace(/^\( (.*) \)$/, '$1')
    .replace(/\( /g, '(')
    .replace(/ \)/g, ')');
  return {
    question: `${body}${/[.?!,]$/.test(body) ? '' : '.'} ${Question.trim()}`,
    expression,
    answer: Answer,
  };
}

/** The problems of a split, from the file SVAMP.json. */
export function problems(split: Split): Dataset<Problem> {
  const { rows, name } = readSplit(split);
  return arrayDataset(rows, name);
}

function readSplit(split: Split): { readonly rows: readonly Problem[]; readonly name: string } {
  const file = process.env.SVAMP ?? 'data/SVAMP.json';
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    throw new Error(
      `${file} cannot be read: fetch SVAMP.json from github.com/arkilpatel/SVAMP and name it with SVAMP=PATH`,
    );
  }
  const rows = JSON.parse(text) as readonly SvampRow[];
  const chosen = rows.filter((_, index) => BELONGS[split](index));
  return { rows: chosen.map(problemOf), name: `SVAMP ${split}` };
}

export type Shown = 'own' | 'drawn';

/** Problems to demonstrate, with their own expression or with a drawn one. */
export function shownProblems(split: Split, shown: Shown, seed: number): Dataset<Problem> {
  const { rows, name } = readSplit(split);
  if (shown === 'own') return arrayDataset(rows, name);
  const drawn = rows.flatMap(
    (problem, index) => withDrawnCall(problem, createRandom(hashSeed('drawn call', seed, index))) ?? [],
  );
  return arrayDataset(drawn, `${name} with drawn calls`);
}

/** The problems of training as they are, and `times - 1` times over with other numbers. */
export function variedProblems({ times = 8, seed = 1, split = 'train' as Split } = {}): Dataset<Problem> {
  const { rows, name } = readSplit(split);
  const repeated = Array.from({ length: times }, () => rows).flat();
  return arrayDataset(repeated, `${name} with other numbers`).map((problem, index) =>
    index < rows.length
      ? problem
      : withOtherNumbers(problem, createRandom(hashSeed('other numbers', seed, index))),
  );
}

const SHORT_STEPS = 2;

/** The problems of GSM8K's test file whose solutions take one or two calculations. */
export function shortProblems(file: string): Dataset<Problem> {
  const rows = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line) as { readonly question: string; readonly answer: string });
  const problems = rows.flatMap(({ question, answer: solution }) => {
    const calculations = [...solution.matchAll(/<<(.+?)=.*?>>/g)].map(([, expression]) => expression!);
    const answer = /#### (-?[\d.,]+)/.exec(solution)?.[1];
    if (answer === undefined) throw new Error(`${file}: no "#### number" in ${JSON.stringify(solution)}`);
    if (calculations.length === 0 || calculations.length > SHORT_STEPS) return [];
    const expression = calculations.at(-1)!;
    return [{ question: question.trim(), expression, answer: Number(answer.replaceAll(',', '')) }];
  });
  return arrayDataset(problems, 'GSM8K, one and two steps');
}

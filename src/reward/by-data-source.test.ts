import { expect, test } from 'vitest';
import { ConfigError } from '../errors.ts';
import type { Sandbox } from '../services/sandbox/sandbox.ts';
import { runsCode, scorerOfSource } from './by-data-source.ts';

/** Runs JavaScript in this process: enough to see which code and which input a scorer runs. */
const sandbox = {
  run: async (code: string, { stdin = '' }: { stdin?: string } = {}) => {
    const printed: string[] = [];
    try {
      new Function('read', 'print', code)(
        () => stdin,
        (text: unknown) => printed.push(String(text)),
      );
      return { status: 'ok', stdout: printed.join('\n'), stderr: '' };
    } catch (error) {
      return { status: 'failed', stdout: printed.join('\n'), stderr: String(error) };
    }
  },
} as unknown as Sandbox;

const score = async (source: string, solution: string, truth: unknown) => {
  const value = await scorerOfSource(source)({
    solution,
    truth,
    sandbox: () => sandbox,
    signal: new AbortController().signal,
  });
  return typeof value === 'number' ? value : (value as { score: number }).score;
};

const DOUBLE = 'Doubles it.\n```js\nprint(2 * Number(read()));\n```';
const PAIRS = { inputs: ['2', '5', '7'], outputs: ['4', '10', '15'] };
const ADD = '```js\nfunction add(a, b) { return a + b; }\n```';
const ASSERTS = [
  "if (add(1, 2) !== 3) throw new Error('1 + 2');",
  "if (add(1, 1) !== 3) throw new Error('1 + 1');",
];

test.each<[source: string, solution: string, truth: unknown, points: number]>([
  ['openai/gsm8k', 'It is 2 + 3.\n#### 5', '5', 1],
  ['openai/gsm8k', 'It is 5.', '5', 0],
  ['lighteval/MATH', 'So \\boxed{\\frac12}.', '0.5', 1],
  ['HuggingFaceH4/MATH-500', 'The answer is 0.5.', '0.5', 0],
  ['math_dapo', 'Answer: $\\frac{2}{4}$', '0.5', 1],
  ['aime2025', 'Answer: 3', '4', -1],
  ['numina_olympiads', 'Thus $x = 1$ or $x = 2$.', '\\{1, 2\\}', 1],
  ['amc23', 'The answer is 7.', '8', 0],
  ['hiyouga/geometry3k', '<think>Half.</think> \\boxed{2\\sqrt{3}}', '\\sqrt{12}', 1],
  ['hiyouga/geometry3k', '<think>Half.</think> \\boxed{3}', '\\sqrt{12}', 0.1],
  ['cais/mmlu', 'Option A is wrong, so the answer is (C).', 'C', 1],
  ['Idavidrein/gpqa', 'The answer is (B).', 'C', 0],
  ['TIGER-Lab/MMLU-Pro', '\\boxed{\\text{J}}', 'J', 1],
  ['allenai/ai2_arc', 'I do not know.', 'A', 0],
  ['searchR1_nq', 'Found. <answer>The Beatles</answer>', { target: ['beatles'] }, 1],
  ['searchR1_hotpotqa', 'It is the Beatles.', { target: ['beatles'] }, 0],
  ['codecontests', DOUBLE, PAIRS, 2 / 3],
  ['apps', DOUBLE, JSON.stringify(PAIRS), 2 / 3],
  ['taco', 'No code here.', PAIRS, 0],
  ['mbpp-typescript', ADD, { asserts: ASSERTS, language: 'typescript' }, 0.5],
  ['humaneval-python', ADD, ASSERTS, 0.5],
])('%s gives %j against %j its points', async (source, solution, truth, points) => {
  expect(await score(source, solution, truth)).toBeCloseTo(points, 12);
});

test('a source that nothing scores is an error that names the nearest', () => {
  expect(() => scorerOfSource('openai/gsm8')).toThrow(ConfigError);
  expect(() => scorerOfSource('openai/gsm8')).toThrow('did you mean openai/gsm8k');
  expect(() => scorerOfSource(undefined)).toThrow('no data_source');
});

test('only the sources of programs run code', () => {
  expect(runsCode(scorerOfSource('codeforces'))).toBe(true);
  expect(runsCode(scorerOfSource('cais/mmlu'))).toBe(false);
});

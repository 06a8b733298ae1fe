import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rollout, sft, train } from 'rollcall';
import { createRandom } from 'rollcall/datasets';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { evaluateExpression } from 'rollcall/tools';
import { expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import { withDrawnCall } from './drawn-calls.ts';
import { withOtherNumbers } from './other-numbers.ts';
import { type Problem, problemOf, problems, shortProblems, variedProblems } from './problems.ts';
import { sftOptions, trainOptions } from './recipe.ts';
import { answerOf, CHAT, caller, correctCall } from './solver.ts';
import { TEMPLATE } from './template.ts';

const ROW = {
  Body: 'Each pack of dvds costs 76 dollars. If there is a discount of 25 dollars on each pack',
  Question: 'How much do you have to pay to buy each pack?',
  Equation: '( 76.0 - 25.0 )',
  Answer: 51,
};

test("a row of SVAMP becomes a question, the calculator's expression and the answer", () => {
  expect(problemOf(ROW)).toEqual({
    question:
      'Each pack of dvds costs 76 dollars. If there is a discount of 25 dollars on each pack. How much do you have to pay to buy each pack?',
    expression: '76 - 25',
    answer: 51,
  });
  expect(problemOf({ ...ROW, Equation: '( ( 8.0 + 2.5 ) * 3.0 )' }).expression).toBe('(8 + 2.5) * 3');
  expect(answerOf('The answer is $1,051.50.')).toBe(1051.5);
});

test('the problems of GSM8K with one or two calculations are a second test', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'rollcall-laptop-')), 'test.jsonl');
  const row = (steps: readonly string[], answer: string) =>
    JSON.stringify({ question: ' How many? ', answer: `${steps.join('\n')}\n#### ${answer}` });
  const one = 'She has 2 * 600 = <<2*600=1200>>1200.';
  writeFileSync(file, [row([one], '1,200'), row([one, one, one], '7'), row([], '3'), ''].join('\n'));
  const short = shortProblems(file);
  expect(short.length).toBe(1);
  for await (const { row: problem } of short.rows())
    expect(problem).toEqual({ question: 'How many?', expression: '2*600', answer: 1200 });
});

test('a problem gets other numbers: as many digits, ranked alike, whole and positive results', () => {
  const pack = problemOf(ROW);
  const eggs: Problem = {
    question: 'Each of 4 days 12 eggs are packed into boxes of 24, and 3 are lost. How many boxes?',
    expression: '(4 * 12) / 24',
    answer: 2,
  };
  const seen = new Set<string>();
  for (let seed = 0; seed < 50; seed++) {
    const [price, discount] = numbersOf(withOtherNumbers(pack, createRandom(seed)).question);
    expect([price, discount].every((number) => number! >= 10 && number! <= 99)).toBe(true);
    expect(price).toBeGreaterThan(discount!);
    expect(withOtherNumbers(pack, createRandom(seed))).toEqual({
      question: `Each pack of dvds costs ${price} dollars. If there is a discount of ${discount} dollars on each pack. How much do you have to pay to buy each pack?`,
      expression: `${price} - ${discount}`,
      answer: price! - discount!,
    });
    seen.add(`${price} ${discount}`);
    const { question, answer } = withOtherNumbers(eggs, createRandom(seed));
    const [days, packed, box, lost] = numbersOf(question);
    expect(answer).toBe((days! * packed!) / box!);
    expect([Number.isInteger(answer), lost, lost! < days!, packed! < box!]).toEqual([true, 3, true, true]);
  }
  expect(seen.size).toBeGreaterThan(40);
});

test('a problem keeps its numbers where they do not stand in it once each', () => {
  const left = (question: string, expression: string, answer: number) => {
    const problem = { question, expression, answer };
    expect(withOtherNumbers(problem, createRandom(1))).toBe(problem);
  };
  left('He had 9 pens and lost 9 of 20 others. How many others?', '20 - 9', 11);
  left('She saw 86 birds, and 45 more. How many twice?', '86 + 86', 172);
  left('How many hours are 3 days?', '3 * 24', 72);
  left('It was the 1st of 12 months, 30 days each. How many days?', '12 * 31', 372);
  left('He had 8 pens and lost 3. How many?', '8 - 3', 6);
});

test('a drawn call takes numbers of the question and shows nothing of how to solve it', () => {
  const drawn = Array.from({ length: 200 }, (_, seed) => withDrawnCall(problemOf(ROW), createRandom(seed))!);
  expect(new Set(drawn.map(({ expression }) => expression))).toEqual(
    new Set(['76 + 25', '25 + 76', '76 - 25', '25 - 76', '76 * 25', '25 * 76', '76 / 25', '25 / 76']),
  );
  for (const { question, expression, answer } of drawn) {
    expect(question).toBe(problemOf(ROW).question);
    expect(answer).toBe(evaluateExpression(expression));
  }
  const three = { question: 'Of 4, 12 and 0 which?', expression: '12 - 4', answer: 8 };
  const calls = Array.from({ length: 200 }, (_, seed) => withDrawnCall(three, createRandom(seed)));
  expect(calls.some((call) => /^\(\d+ [-+*/] \d+\) [-+*/] \d+$/.test(call?.expression ?? ''))).toBe(true);
  expect(calls.every((call) => call === undefined || Number.isFinite(call.answer))).toBe(true);
  expect(calls).toContain(undefined); // divided by 0
  expect(withDrawnCall({ ...three, question: 'Of 4 and 4 which?' }, createRandom(1))).toBeUndefined();
});

test('what is trained on is the split, and then the split with other numbers', async () => {
  process.env.SVAMP = join(mkdtempSync(join(tmpdir(), 'rollcall-laptop-')), 'SVAMP.json');
  writeFileSync(process.env.SVAMP, JSON.stringify(Array.from({ length: 10 }, () => ROW)));
  const varied = variedProblems({ times: 3, seed: 4 });
  const questions: string[] = [];
  for await (const { row } of varied.rows()) questions.push(row.question);
  expect(questions.slice(0, 7)).toEqual(Array(7).fill(problemOf(ROW).question));
  expect(questions).toHaveLength(21);
  expect(new Set(questions.slice(7)).size).toBeGreaterThan(10);
  expect((await varied.at(20)).question).toBe(questions[20]);
  expect((await variedProblems({ times: 3, seed: 5 }).at(20)).question).not.toBe(questions[20]);
});

const numbersOf = (text: string) => (text.match(/\d+/g) ?? []).map(Number);

test('both stages run on a tiny model', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-laptop-'));
  process.env.SVAMP = join(folder, 'SVAMP.json');
  writeFileSync(process.env.SVAMP, JSON.stringify(Array.from({ length: 20 }, () => ROW)));
  expect([problems('train').length, problems('test').length]).toEqual([14, 6]);
  const model = await tinyModel();
  const imitation = await sftOptions({ model, runDir: join(folder, 'sft') });
  let loss: number | undefined;
  for await (const { metrics } of sft({ ...imitation, steps: 1, demonstrationsPerStep: 2 }))
    loss = metrics['train/loss'];
  expect(loss).toBeGreaterThan(0);
  const options = trainOptions({ model, runDir: join(folder, 'grpo') }, { steps: 1 });
  for await (const { step, groups } of train({ ...options, tasksPerStep: 2, attemptsPerTask: 2 })) {
    if (step === 1) expect(groups.flatMap(({ attempts }) => attempts)).toHaveLength(4);
  }
});

test('an attempt of training ends with its call, and is right if the result is', async () => {
  const { tokenizer, format } = byteModel({ ...CHAT, template: TEMPLATE });
  const rewardOf = async (reply: string) => {
    const [group] = await rollout<Problem>({
      tasks: [{ index: 0, task: problemOf(ROW) }],
      attempts: 1,
      step: 1,
      agent: caller(),
      server: scriptedEngine({ tokenizer, reply: () => reply }),
      format,
      rewards: [correctCall],
      limits: { turns: 3, contextTokens: 2048 },
      seed: 1,
      failures: { retries: 0, tolerateShare: 1 },
    });
    const { trajectory, reward } = group!.attempts[0]!;
    expect(trajectory.turns).toHaveLength(1);
    return reward;
  };
  expect(await rewardOf('calculator(expression="76 - 25")')).toBe(1);
  expect(await rewardOf('calculator(expression="76 + 25")')).toBe(0);
  expect(await rewardOf('calculator(expression="76 -")')).toBe(0);
  expect(await rewardOf('The answer is 51.')).toBe(0);
});

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sft, train } from 'rollcall';
import { expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import { problemOf, problems, shortProblems } from './problems.ts';
import { sftOptions, trainOptions } from './recipe.ts';
import { answerOf } from './solver.ts';

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

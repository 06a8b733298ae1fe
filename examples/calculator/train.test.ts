import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rollout, type StepReport, train } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import { options } from './train.ts';

test('the example runs as written, at toy size', { timeout: 60_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-example-'));
  const toy = { steps: 2, tasksPerStep: 2, attemptsPerTask: 2, evaluation: { every: 0, before: false } };
  const reports: StepReport[] = [];
  for await (const report of train({
    ...options,
    ...toy,
    model: await tinyModel(),
    runDir: join(folder, 'run'),
  })) {
    reports.push(report as unknown as StepReport);
  }
  expect(reports.map(({ step }) => step)).toEqual([1, 2]);
  expect(reports[0]!.groups.map(({ attempts }) => attempts.length)).toEqual([2, 2]);
  await rm(folder, { recursive: true });
});

test('its tool calculates and its reward knows a right answer from a wrong one', async () => {
  const { tokenizer, format } = byteModel();
  const call = (expression: string) =>
    `<tool_call>{"name": "calculator", "arguments": {"expression": "${expression}"}}</tool_call>`;
  const attempts = [
    [call('44*38'), call('1672-595'), 'The answer is 1077.'],
    [call('44*38'), 'The answer is 1672.'],
    [call('44*38-595'), 'No idea.'],
  ];
  const [group] = await rollout({
    ...{
      agent: options.agent,
      rewards: options.rewards,
      format,
      seed: 1,
      step: 1,
      attempts: attempts.length,
    },
    tasks: [{ index: 0, task: await options.tasks.at(0) }],
    server: scriptedEngine({
      tokenizer,
      reply: ({ request, turn }) => attempts[Number(request.trajectory.at(-1))]![turn]!,
    }),
  });
  expect(group!.attempts.map(({ reward }) => reward)).toEqual([1, 0, 0]);
  const results = group!.attempts.map(({ trajectory }) =>
    trajectory.turns.flatMap(({ toolRuns }) => toolRuns.map(({ result }) => result)),
  );
  expect(results).toEqual([['1672', '1077'], ['1672'], [expect.stringContaining('not one operation')]]);
});

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, rollout, train } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { tinyModel } from '../test/tiny-model.ts';
import { options as aiSdk } from './ai-sdk/train.ts';
import { options as langgraph } from './langgraph/train.ts';

const EXAMPLES = { langgraph, aiSdk };

test.each(Object.entries(EXAMPLES))(
  'the example %s solves a problem as the calculator example does',
  async (_, options) => {
    const { tokenizer, format } = byteModel();
    const call = (expression: string) =>
      `<tool_call>{"name": "calculator", "arguments": {"expression": "${expression}"}}</tool_call>`;
    const replies = [call('44*38'), call('44*'), call('1672-595'), 'The answer is 1077.'];
    const [group] = await rollout({
      agent: options.agent as Agent<unknown>,
      rewards: options.rewards,
      format,
      seed: 1,
      step: 1,
      attempts: 1,
      tasks: [{ index: 0, task: await options.tasks.at(0) }],
      server: scriptedEngine({ tokenizer, reply: ({ turn }) => replies[turn]! }),
    });
    const { reward, trajectory } = group!.attempts[0]!;
    expect([reward, trajectory.segments.length]).toEqual([1, 1]);
    const results = trajectory.turns.flatMap(({ toolRuns }) => toolRuns.map(({ result }) => result));
    expect(results).toEqual(['1672', expect.stringContaining('not one operation'), '1077']);
  },
);

test('an example runs as written, at toy size', { timeout: 60_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-example-'));
  const toy = { steps: 1, tasksPerStep: 2, attemptsPerTask: 2, evaluation: { every: 0, before: false } };
  const run = { ...langgraph, ...toy, model: await tinyModel(), runDir: join(folder, 'run') };
  for await (const { step, groups } of train(run)) {
    expect([step, groups.length]).toEqual([1, 2]);
  }
  await rm(folder, { recursive: true });
});

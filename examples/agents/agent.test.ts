import { rollout } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { options } from './train.ts';

const call = (expression: string) =>
  `<tool_call>{"name": "calculator", "arguments": {"expression": "${expression}"}}</tool_call>`;

test('the agent runs the calls of the model and ends with its answer', async () => {
  const { tokenizer, format } = byteModel();
  const replies = [call('44*38'), call('1672-595'), 'The answer is 1077.'];
  const [group] = await rollout({
    agent: options.agent,
    rewards: options.rewards,
    tasks: [{ index: 0, task: await options.tasks.at(0) }],
    server: scriptedEngine({ tokenizer, reply: ({ turn }) => replies[turn]! }), // plays these, whatever the prompt
    format,
    attempts: 1,
    step: 1,
    seed: 1,
  });
  const { reward, trajectory } = group!.attempts[0]!;
  expect(trajectory.end).toEqual({ kind: 'completed' });
  expect(reward).toBe(1);
  const results = trajectory.turns.flatMap(({ toolRuns }) => toolRuns.map(({ result }) => result));
  expect(results).toEqual(['1672', '1077']);
});

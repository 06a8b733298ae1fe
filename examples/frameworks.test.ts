import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rollout, train } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { tinyModel } from '../test/tiny-model.ts';
import { solver as aiSdk } from './agents/ai-sdk.ts';
import { solver as langgraph } from './agents/langgraph.ts';
import { solver as openaiAgents } from './agents/openai-agents.ts';
import { solver as python } from './agents/python.ts';
import { solver as toolLoop } from './agents/tool-loop.ts';
import { options } from './agents/train.ts';
import { solver as url } from './agents/url.ts';

const SOLVERS = { toolLoop, langgraph, aiSdk, openaiAgents, url, python };

test.each(Object.entries(SOLVERS))(
  'the example %s solves a problem, told what its calculator does not take',
  async (_, solver) => {
    const { tokenizer, format } = byteModel();
    const call = (expression: string) =>
      `<tool_call>{"name": "calculator", "arguments": {"expression": "${expression}"}}</tool_call>`;
    const replies = [call('44*38'), call('44*'), call('1672-595'), 'The answer is 1077.'];
    const [group] = await rollout({
      agent: solver,
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
  const run = { ...options, agent: langgraph, ...toy, model: await tinyModel(), runDir: join(folder, 'run') };
  for await (const { step, groups } of train(run)) {
    expect([step, groups.length]).toEqual([1, 2]);
  }
  await rm(folder, { recursive: true });
});

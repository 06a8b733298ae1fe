import { Agent, handoff, Runner, tool } from '@openai/agents-core';
import { type AgentContext, agent, reward, rollout, type Task } from 'rollcall';
import { modelProvider, replyOf } from 'rollcall/openai-agents';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
});
const solver = new Agent({ name: 'solver', instructions: 'Be brief.', tools: [add] });

const runnerOf = ({ model }: AgentContext) =>
  new Runner({ modelProvider: modelProvider(model), tracingDisabled: true });

/** One attempt, and the engine that answered it; what the trajectory holds must be what the engine gave. */
async function play(run: (context: AgentContext) => Promise<unknown>, replies: readonly string[]) {
  const engine = scriptedEngine({ tokenizer, reply: ({ turn }) => replies[turn]! });
  const [group] = await rollout<Task>({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: agent(async (context) => void (await run(context))),
    server: engine,
    format,
    rewards: [reward('one', () => 1)],
    seed: 1,
    failures: { tolerateShare: 1 },
  });
  const { trajectory } = group!.attempts[0]!;
  trajectory.turns.forEach(({ segment, start, end }, turn) => {
    const { ids, trained } = trajectory.segments[segment]!;
    expect(ids.slice(0, start)).toEqual(engine.requests[turn]!.prompt);
    expect(ids.slice(start, end)).toEqual(engine.replies[turn]!.ids);
    expect(trained.slice(start, end)).not.toContain(0);
  });
  expect(trajectory.turns).toHaveLength(engine.replies.length);
  return trajectory;
}

/** Spaced as no template would space it, so that encoding it again would show. */
const CALL = '<think>hm</think>Let me see. <tool_call>{"name":"add",  "arguments":{"b":3,"a":2}}</tool_call>';

test.each([false, true])(
  'an agent of OpenAI Agents is one segment of exact tokens (stream: %s)',
  async (stream) => {
    let output: unknown;
    const trajectory = await play(
      async (context) => {
        if (stream) {
          const result = await runnerOf(context).run(solver, '2 + 3?', { stream: true });
          await result.completed;
          output = result.finalOutput;
        } else output = (await runnerOf(context).run(solver, '2 + 3?')).finalOutput;
      },
      [CALL, 'It is 5.'],
    );
    expect([output, trajectory.end, trajectory.segments.length]).toEqual([
      'It is 5.',
      { kind: 'completed' },
      1,
    ]);
    const text = tokenizer.decode(trajectory.segments[0]!.ids);
    expect(text.slice(text.indexOf('<|im_start|>system\nBe'))).toBe(
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2 + 3?<|im_end|>\n' +
        `<|im_start|>assistant\n${CALL}<|im_end|>\n` +
        '<|im_start|>tool\n5<|im_end|>\n<|im_start|>assistant\nIt is 5.<|im_end|>',
    );
    expect(text).not.toContain('$schema');
    expect(trajectory.turns[0]!.toolRuns).toMatchObject([{ call: { name: 'add' }, result: '5' }]);
  },
);

test('unreadable calls and unknown tools are answered to the model; the SDK would end the run', async () => {
  const trajectory = await play(
    (context) => runnerOf(context).run(solver, '2 + 3?'),
    [
      '<tool_call>{"name": "add", "arguments": {"a": 2,}</tool_call>',
      call('subtract'),
      call('multiply') + call('add', { a: 2, b: 3 }),
      'It is 5.',
    ],
  );
  expect([trajectory.end.kind, trajectory.segments.length]).toEqual(['completed', 1]);
  const unknown = (name: string) => `Unknown tool '${name}'. Available tools: add.`;
  expect(trajectory.turns.map(({ toolRuns }) => toolRuns.map(({ result }) => result))).toEqual([
    [],
    [unknown('subtract')],
    [unknown('multiply'), '5'],
    [],
  ]);
  expect(trajectory.turns[0]!.problems).toMatchObject([{ kind: 'malformed-call' }]);
  const problems = trajectory.turns.flatMap(({ toolRuns }) =>
    toolRuns.flatMap(({ problem }) => problem ?? []),
  );
  expect(problems.map(({ kind }) => kind)).toEqual(['unknown-tool', 'unknown-tool']);
});

test('a handoff is a call whose answer another agent continues from, in a new segment', async () => {
  const poet = new Agent({ name: 'poet', instructions: 'Rhyme.' });
  const first = new Agent({ name: 'first', instructions: 'Hand over.', handoffs: [handoff(poet)] });
  let last: string | undefined;
  const trajectory = await play(
    async (context) => {
      last = (await runnerOf(context).run(first, 'A poem!')).lastAgent?.name;
    },
    [call('transfer_to_poet'), 'Roses are red.'],
  );
  expect(last).toBe('poet');
  expect(trajectory.turns.map(({ segment }) => segment)).toEqual([0, 1]);
});

test('replyOf gives the handle of a raw response', async () => {
  const trajectory = await play(
    async (context) => {
      const { rawResponses } = await runnerOf(context).run(solver, '2 + 3?');
      context.reward(replyOf(rawResponses[0]!), 0.25);
    },
    [CALL, 'It is 5.'],
  );
  expect(trajectory.turns.map(({ reward: credit }) => credit)).toEqual([0.25, undefined]);
});

test('what cannot be done is refused in words', async () => {
  const failure = async (run: (context: AgentContext) => Promise<unknown>) => {
    const { end } = await play(run, ['ok']);
    return end.kind === 'failed' ? end.message : end.kind;
  };
  const forced = new Agent({ name: 'forced', tools: [add], modelSettings: { toolChoice: 'required' } });
  expect(await failure((context) => runnerOf(context).run(forced, 'go'))).toMatch(
    /toolChoice is "required"; the policy must choose freely/,
  );
  const typed = new Agent({ name: 'typed', outputType: z.object({ a: z.number() }) });
  expect(await failure((context) => runnerOf(context).run(typed, 'go'))).toMatch(/leave out outputType/);
});

import { expect, test } from 'vitest';
import type { Message, Problem, ToolRun, Trajectory, Turn } from '../types.ts';
import { type Shaping, shapingReward } from './shaping.ts';

const EVERY_PART: Shaping = {
  per: 'trajectory',
  toolCallSuccess: 0.1,
  validReasoning: 0.05,
  invalidToolCall: -0.1,
  maxTurnsExceeded: -0.5,
  redundantToolCall: -0.05,
  toolFormat: 0.05,
};

const problem: Problem = { kind: 'bad-arguments', message: 'no', source: 'add' };
const run = (name: string, given: Record<string, unknown>, wrong?: Problem): ToolRun => ({
  call: { id: 'c', name, arguments: given },
  result: '',
  milliseconds: 0,
  ...(wrong && { problem: wrong }),
});

function trajectory(
  runs: readonly (readonly ToolRun[])[],
  more: { said?: string; problems?: readonly Problem[]; end?: Trajectory['end'] } = {},
): Trajectory {
  const { said = '', problems = [], end = { kind: 'completed' } } = more;
  const turns = runs.map(
    (toolRuns): Turn => ({
      segment: 0,
      start: 0,
      end: 0,
      finish: 'stop',
      toolCalls: toolRuns.map(({ call }) => call),
      toolRuns,
      problems,
    }),
  );
  const messages = turns.map(({ toolCalls }): Message => ({ role: 'assistant', content: said, toolCalls }));
  return {
    ...{ id: 't', step: 1, taskIndex: 0, task: {}, attempt: 0, segments: [], spans: [], extra: {}, text: '' },
    messages,
    chats: [],
    turns,
    end,
  };
}

async function scored(of: Trajectory, more: Partial<Shaping> = {}) {
  const { signal } = new AbortController();
  return shapingReward({ ...EVERY_PART, ...more }).score({ task: {}, trajectory: of, solution: '', signal });
}

test('tool_call_success counts once, however many calls succeed', async () => {
  expect(await scored(trajectory([[run('add', { a: 1 })], [run('add', { a: 2 })]]))).toMatchObject({
    toolCallSuccess: 0.1,
    toolFormat: 0.05,
    score: expect.closeTo(0.15),
  });
  expect(await scored(trajectory([[]]))).toMatchObject({ score: 0 });
});

test('per turn, success, format and reasoning count for each turn that has them', async () => {
  const turns = [[run('add', { a: 1 }), run('add', { a: 3 })], [run('add', { a: 2 }, problem)], []];
  const said = { said: 'I add them.' };
  expect(await scored(trajectory(turns, said), { per: 'turn' })).toMatchObject({
    toolCallSuccess: 0.1, // the first turn, however many calls it has
    toolFormat: 0.1, // the first two
    validReasoning: 0.1,
    invalidToolCall: -0.1,
    score: expect.closeTo(0.2),
  });
  expect(() => shapingReward({ per: 'turn' }, { isValidReasoning: () => true })).toThrow('whole trajectory');
});

test('invalid_tool_call counts for each call that could not be read or run', async () => {
  const wrong = trajectory([[run('add', { a: 1 }, problem), run('add', { a: 2 }, problem)]], {
    problems: [problem],
  });
  expect(await scored(wrong)).toMatchObject({ invalidToolCall: expect.closeTo(-0.3), toolFormat: 0 });
});

test('redundant_tool_call counts for each repetition, whatever the order of arguments', async () => {
  const again = trajectory([
    [run('add', { a: 1, b: [2] })],
    [run('add', { b: [2], a: 1 })],
    [run('sub', { a: 1, b: [2] })],
  ]);
  expect(await scored(again)).toMatchObject({ redundantToolCall: -0.05 });
});

test('max_turns_exceeded is for turns alone', async () => {
  expect(await scored(trajectory([[]], { end: { kind: 'truncated', why: 'turns' } }))).toMatchObject({
    maxTurnsExceeded: -0.5,
  });
  expect(await scored(trajectory([[]], { end: { kind: 'truncated', why: 'tokens' } }))).toMatchObject({
    maxTurnsExceeded: 0,
  });
});

test('valid_reasoning is by default that every calling reply says something, and can be another predicate', async () => {
  expect(await scored(trajectory([[run('add', {})]], { said: 'I add them.' }))).toMatchObject({
    validReasoning: 0.05,
  });
  expect(await scored(trajectory([[run('add', {})]]))).toMatchObject({ validReasoning: 0 });
  const { signal } = new AbortController();
  const always = shapingReward(EVERY_PART, { isValidReasoning: () => true });
  expect(await always.score({ task: {}, trajectory: trajectory([[]]), solution: '', signal })).toMatchObject({
    validReasoning: 0.05,
  });
});

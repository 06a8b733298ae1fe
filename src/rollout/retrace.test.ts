import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { servedChats } from '../agent/adapters/served-chats.ts';
import { agent } from '../agent/agent.ts';
import { rollout } from '../rollout.ts';
import type { Message, Trajectory } from '../types.ts';
import { type RecordedTrajectory, retraceUpTo } from './retrace.ts';

const { tokenizer, format } = byteModel();
let clock = 0;

/** Turns 1 and 4 are the main dialogue's, 2 and 3 its helper's. What it says differs each time it runs. */
const withHelper = agent(async ({ model }) => {
  const main = model.chat({ messages: [{ role: 'user', content: `question at ${++clock}` }] });
  await main.sample();
  const helper = model.chat({ system: 'help', messages: [{ role: 'user', content: 'first' }] });
  const draft = await helper.sample();
  helper.user(`better than ${draft.content}?`);
  const { content } = await helper.sample();
  main.user(`the helper says ${content}`);
  await main.sample();
});

const run = async (name: string, options: Partial<Parameters<typeof rollout>[0]> = {}) => {
  const engine = scriptedEngine({ tokenizer, reply: ({ turn }) => `${name}${turn + 1}` });
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: withHelper,
    rewards: [],
    server: engine,
    format,
    seed: 1,
    stopOnAgentFailure: true,
    ...options,
  });
  return { engine, trajectory: group!.attempts[0]!.trajectory };
};

const recordedOf = ({ segments, ...trajectory }: Trajectory<unknown>): RecordedTrajectory => ({
  trajectory,
  segments: segments.map((segment) => ({ ...segment, rolloutLogprobs: segment.logprobs })),
});

const saidIn = ({ messages }: { readonly messages: readonly Message[] }) =>
  messages.map(({ content }) => content);

test('a turn names the message of its reply, whichever chat it is in', async () => {
  const { trajectory } = await run('a');
  expect(trajectory.chats).toEqual([
    { number: 0, start: 0, end: 4, tools: [] },
    { number: 1, start: 4, end: 9, tools: [] },
  ]);
  expect(trajectory.turns.map(({ message }) => message)).toEqual([1, 6, 8, 3]);
  expect(trajectory.turns.map(({ message }) => trajectory.messages[message!]!.content)).toEqual([
    'a1',
    'a2',
    'a3',
    'a4',
  ]);
});

test('up to the turn the agent gets what was recorded, from there on it is left to itself', async () => {
  const { trajectory: first } = await run('a');
  const retrace = retraceUpTo(recordedOf(first), { turn: 3, edits: {}, format });
  const { trajectory, engine } = await run('b', { retrace, attempts: 1 });
  expect(engine.requests.length).toBe(2);
  // The prompt is the recorded one, token by token, although the agent said something else.
  const { segment, start } = first.turns[2]!;
  expect(engine.requests[0]!.prompt).toEqual(first.segments[segment]!.ids.slice(0, start));
  expect(saidIn(trajectory)).toEqual([
    first.messages[0]!.content,
    'a1',
    'the helper says b1', // said after the turn: not what was recorded
    'b2',
    'help',
    'first',
    'a2',
    'better than a2?',
    'b1',
  ]);
  expect(trajectory.segments[0]!.logprobs.slice(0, 20)).toEqual(first.segments[0]!.logprobs.slice(0, 20));
});

test('messages and replies before the turn can be edited, others not', async () => {
  const { trajectory: first } = await run('a');
  const edits = { 6: 'c2', 7: 'why?' };
  const retrace = retraceUpTo(recordedOf(first), { turn: 3, edits, format });
  const { trajectory, engine } = await run('b', { retrace });
  expect(tokenizer.decode(engine.requests[0]!.prompt)).toContain('c2');
  expect(saidIn(trajectory).slice(4, 8)).toEqual(['help', 'first', 'c2', 'why?']);
  expect(() => retraceUpTo(recordedOf(first), { turn: 3, edits: { 2: 'x' }, format })).toThrow(
    'message 2 does not lie before turn 3; these can be edited: 0, 4, 5, 6, 7',
  );
  expect(() => retraceUpTo(recordedOf(first), { turn: 5, edits: {}, format })).toThrow(
    'there is no turn 5 in this trajectory; it has turns 1 to 4',
  );
});

test('an agent behind a framework is continued by itself, with the edit under it', async () => {
  const framework = agent(async ({ model }) => {
    const messages: Message[] = [{ role: 'user', content: 'hello' }];
    for (const next of ['and?', 'more?', undefined]) {
      const request = {
        messages: [...messages],
        toolSchemas: [],
        sampling: {},
        failedCalls: new Set<string>(),
      };
      const { content } = await servedChats(model).reply(request);
      messages.push({ role: 'assistant', content });
      if (next !== undefined) messages.push({ role: 'user', content: next });
    }
  });
  const { trajectory: first } = await run('a', { agent: framework });
  const retrace = retraceUpTo(recordedOf(first), { turn: 3, edits: { 4: 'less?' }, format });
  const { trajectory, engine } = await run('b', { agent: framework, retrace });
  expect(engine.requests.length).toBe(1);
  expect(saidIn(trajectory)).toEqual(['hello', 'a1', 'and?', 'a2', 'less?', 'b1']);
  expect(trajectory.segments.length).toBe(1);
});

test('an agent that has changed since is refused', async () => {
  const { trajectory: first } = await run('a');
  const other = agent(async ({ model }) => {
    const chat = model.chat({ system: 'another', messages: [{ role: 'user', content: 'question' }] });
    await chat.sample();
  });
  const retrace = retraceUpTo(recordedOf(first), { turn: 2, edits: {}, format });
  await expect(run('b', { agent: other, retrace })).rejects.toThrow(
    "the agent does not do again what it did: message 0 was user's and is system's now",
  );
});

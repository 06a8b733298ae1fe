import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, embedded, reward, sft, tool, toolLoop, train } from 'rollcall';
import { writeByteModel } from 'rollcall/testing';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { readTokenTables, writeTokenRows } from '../src/engine/model/token-rows.ts';

const [OPEN, CLOSE] = [259, 260];
const NOTICE = '<tool_call> and </tool_call> were never trained in this model';
const { trainer } = embedded({ threads: 1 });
let model: string;
let folder: string;

/** The byte model, its two call tokens with one row between them. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-untrained-'));
  model = join(folder, 'model');
  await writeByteModel(model);
  const tables = readTokenTables(model, ({ name }, row) => ({ name, rows: new Map([[CLOSE, row(OPEN)]]) }));
  for (const { name, rows } of tables) writeTokenRows(model, name, rows);
});

const echo = tool({
  name: 'echo',
  description: 'Says it again.',
  input: z.object({ text: z.string() }),
  run: ({ text }) => text,
});

test.each([
  ['with tools is told once, with step 1,', toolLoop({ prompt: 'go', tools: [echo] }), [1]],
  [
    'without tools is not told',
    agent(async ({ model: policy }) => {
      const chat = policy.chat();
      chat.user('go');
      await chat.sample();
    }),
    [],
  ],
])('a run %s that its call tokens were never trained', async (name, player, expected) => {
  const steps: number[] = [];
  for await (const { step, notices } of train({
    model,
    tasks: arrayDataset([{}, {}]),
    agent: player,
    rewards: [reward('length', ({ trajectory }) => trajectory.text.length)],
    ...embedded({ threads: 1 }),
    steps: 2,
    tasksPerStep: 1,
    attemptsPerTask: 2,
    limits: { tokensPerReply: 4 },
    runDir: join(folder, name),
  })) {
    steps.push(...notices.filter((notice) => notice.includes(NOTICE)).map(() => step));
  }
  expect(steps).toEqual(expected);
});

test('a warm start with tools is told once, one without is not', async () => {
  const messages = [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: 'gone' },
  ] as const;
  const schema = { name: 'echo', description: 'Says it again.', parameters: { type: 'object' } };
  const tools = [{ type: 'function', function: schema }] as const;
  const toldBy = async (name: string, row: Parameters<typeof sft>[0]['demonstrations']) => {
    const said: (readonly string[])[] = [];
    const options = { model, demonstrations: row, runDir: join(folder, name), steps: 2, trainer };
    for await (const { notices } of sft({ ...options, demonstrationsPerStep: 1 })) said.push(notices);
    return said;
  };
  expect(await toldBy('sft-tools', arrayDataset([{ messages, tools }]))).toEqual([
    [expect.stringContaining(NOTICE)],
    [],
  ]);
  expect(await toldBy('sft-plain', arrayDataset([{ messages }]))).toEqual([[], []]);
});

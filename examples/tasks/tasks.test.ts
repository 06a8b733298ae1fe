import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rollout, type Task, train } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import type { Exercise } from './exercise.ts';
import { interactionTask } from './interaction.ts';
import { PEOPLE, search, searchTask } from './search.ts';

/** Opening the interpreter fails where this machine cannot contain it. */
const code = await import('./code.ts').catch((reason: Error) => reason);
const shaping = await import('./shaping.ts').catch((reason: Error) => reason);
const contained = !(code instanceof Error || shaping instanceof Error);
const { codeTask } = code as typeof import('./code.ts');
const { shapingTask } = shaping as typeof import('./shaping.ts');
const WHY_NOT = 'this machine cannot contain JavaScript that a model writes';

/** A dialogue in which the given replies are the model's, by the task's own agent, tools, users and rewards. */
async function play<T>({ options }: Exercise<T>, task: T, replies: readonly string[]) {
  const { tokenizer, format } = byteModel();
  const [group] = await rollout<T>({
    tasks: [{ index: 0, task }],
    attempts: 1,
    step: 1,
    seed: 1,
    agent: options.agent,
    rewards: options.rewards,
    format,
    limits: { turns: (options.limits as { turns: number }).turns },
    server: scriptedEngine({ tokenizer, reply: ({ turn }) => replies[turn] ?? 'I give up.' }),
  });
  return group!.attempts[0]!;
}

async function rowsOf<T>(dataset: { rows(): AsyncIterable<{ row: T }> }): Promise<T[]> {
  const rows: T[] = [];
  for await (const { row } of dataset.rows()) rows.push(row);
  return rows;
}

test('sums of ranges are what Gauss says, and no range of a kind is in two splits', async ({ skip }) => {
  skip(!contained, WHY_NOT);
  const { options, test } = codeTask(3);
  const splits = [options.tasks, options.validation as typeof options.tasks, test];
  const seen = await Promise.all(splits.map(rowsOf));
  const gauss = (from: number, to: number, step = 1) => {
    const count = Math.floor((to - from) / step) + 1;
    return (count * (2 * from + (count - 1) * step)) / 2;
  };
  for (const { kind, range, answer } of seen.flat()) {
    const [from, to] = range;
    const firstOf = (parity: number) => (from % 2 === parity ? from : from + 1);
    const right = {
      sum: gauss(from, to),
      doubles: 2 * gauss(from, to),
      even: gauss(firstOf(0), to, 2),
      odd: gauss(firstOf(1), to, 2),
    };
    expect(answer).toBe(right[kind]);
  }
  const keys = seen.map((rows) => new Set(rows.map(({ kind, range }) => `${kind} ${range}`)));
  expect([...keys[0]!].filter((key) => keys[1]!.has(key) || keys[2]!.has(key))).toEqual([]);
  expect([...keys[1]!].filter((key) => keys[2]!.has(key))).toEqual([]);
});

test('a demonstration of code ends with what the interpreter prints, right or wrong', {
  timeout: 180_000,
}, async ({ skip }) => {
  skip(!contained, WHY_NOT);
  const exercise = codeTask(1);
  const ends = { right: 0, wrong: 0, brokenCalls: 0 };
  for (let index = 3000; index < 3024; index++) {
    const { task, replies } = exercise.demonstration(index);
    const { trajectory, reward } = await play(exercise, task, replies);
    const printed = trajectory.turns.flatMap(({ toolRuns }) => toolRuns).findLast(({ problem }) => !problem);
    expect(replies.at(-1)).toBe(`The answer is ${String(printed!.result).trim()}.`);
    expect(reward).toBe(Number(printed!.result) === task.answer ? 1 : 0);
    ends[reward === 1 ? 'right' : 'wrong']++;
    ends.brokenCalls += trajectory.turns.length > 2 ? 1 : 0;
  }
  expect(ends.right).toBeGreaterThan(3);
  expect(ends.wrong).toBeGreaterThan(3);
  expect(ends.brokenCalls).toBeGreaterThan(6);
});

test('shaping pays for a call that works and takes for one that does not', { timeout: 180_000 }, async ({
  skip,
}) => {
  skip(!contained, WHY_NOT);
  const exercise = shapingTask(1);
  const [task] = await rowsOf(exercise.test);
  const call = '<tool_call>{"name":"code_interpreter","arguments":{"code":"console.log(1)"}}</tool_call>';
  const answer = `The answer is ${task!.answer}.`;
  const clean = await play(exercise, task!, [call, answer]);
  const broken = await play(exercise, task!, [call.replace('"code":', '"program":'), call, answer]);
  const none = await play(exercise, task!, [answer]);
  expect(clean.reward).toBeCloseTo(1 + 0.1 + 0.05);
  expect(broken.reward).toBeCloseTo(1 + 0.1 + 0.05 - 0.1);
  expect(none.reward).toBe(1);
});

test('a hint leads from the sum to the right answer; without one it does not', async () => {
  const exercise = interactionTask(1);
  const unaided = { ...exercise, options: { ...exercise.options, ...exercise.controls['no hint'] } };
  const after: Record<string, number> = {};
  for (const task of (await rowsOf(exercise.test)).slice(0, 15)) {
    const [a, b] = task.numbers;
    const follow = async (played: typeof exercise) => {
      const { trajectory } = await play(played, task, [`${a} + ${b} #### ${a + b}`]);
      const said = String(trajectory.messages[2]?.content ?? '');
      const second = said.endsWith('larger.')
        ? `#### ${a * b}`
        : said.endsWith('smaller.')
          ? `#### ${a - b}`
          : said;
      return (await play(played, task, [`${a} + ${b} #### ${a + b}`, second])).reward!;
    };
    after.hint = (after.hint ?? 0) + (await follow(exercise));
    after.none = (after.none ?? 0) + (await follow(unaided));
  }
  expect(after).toEqual({ hint: 15, none: 5 });
});

test('each of 4,096 paragraphs is what a search for its title finds first', {
  timeout: 180_000,
}, async () => {
  expect(PEOPLE).toHaveLength(4096);
  expect(new Set(PEOPLE.map(({ name }) => name)).size).toBe(4096);
  for (let index = 0; index < PEOPLE.length; index += 41) {
    const { name } = PEOPLE[index]!;
    const { content } = (await search.run({ query_list: [name] }, {} as never)) as { content: string };
    expect(content).toContain(`(Title: ${name})`);
  }
});

test('two searches answer a question about a friend, and random retrieval leaves a guess', {
  timeout: 180_000,
}, async () => {
  const exercise = searchTask(1);
  const random = { ...exercise, options: { ...exercise.options, ...exercise.controls['random retrieval'] } };
  const call = (name: string) =>
    `<tool_call>{"name":"search","arguments":{"query_list":["${name}"]}}</tool_call>`;
  const townSaid = (text: string) => `The answer is ${/The town of .* is (\w+),/.exec(text)?.[1]}.`;
  const found = { found: 0, random: 0 };
  const tasks = (await rowsOf(exercise.test)).filter(({ friend }) => friend).slice(0, 24);
  for (const task of tasks) {
    const person = PEOPLE[task.person]!;
    const calls = [call(person.name), call(PEOPLE[person.friend]!.name)];
    for (const [name, played] of [
      ['found', exercise],
      ['random', random],
    ] as const) {
      const { trajectory } = await play(played, task, calls);
      const read = String(trajectory.turns[1]!.toolRuns[0]!.result);
      found[name] += (await play(played, task, [...calls, townSaid(read)])).reward!;
    }
  }
  expect(found.found).toBe(24);
  expect(found.random).toBeLessThanOrEqual(6); // 1.5 expected of 24 guesses among 16 towns
});

test('the examples run as written, at toy size', { timeout: 180_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-tasks-'));
  const model = await tinyModel();
  const toy = {
    steps: 1,
    tasksPerStep: 2,
    attemptsPerTask: 2,
    evaluation: { every: 0, before: false, limit: 2 },
  };
  for (const make of [interactionTask, searchTask, ...(contained ? [codeTask, shapingTask] : [])]) {
    const { options } = make(1) as unknown as Exercise<Task>;
    const runDir = join(folder, make.name);
    for await (const { groups } of train({ ...options, ...toy, model, runDir })) {
      expect(groups.map(({ attempts }) => attempts.length)).toEqual([2, 2]);
    }
  }
  await rm(folder, { recursive: true });
});

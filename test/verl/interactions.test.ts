/** verl's simulated users, row by row of its feature table (E), and where we do better. */
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, rollout, type Task, tool, toolLoop } from 'rollcall';
import type { RolloutOptions } from 'rollcall/options';
import { chatService, memoryImages } from 'rollcall/services';
import { byteModel, type ScriptedEngineOptions, scriptedEngine, virtualClock } from 'rollcall/testing';
import {
  answerQuestion,
  gsm8kInteraction,
  humanInteraction,
  type Interaction,
  interaction,
  interactionOf,
  llmInteraction,
  loadInteractionFile,
  openQuestions,
  scriptedInteraction,
} from 'rollcall/users';
import { describe, expect, onTestFinished, test } from 'vitest';

const { tokenizer, format } = byteModel();

async function talk(
  user: Interaction,
  reply: ScriptedEngineOptions['reply'],
  more: Partial<RolloutOptions<Task>> & { kwargs?: Record<string, unknown> } = {},
) {
  const { kwargs = {}, ...rest } = more;
  const add = tool({
    name: 'add',
    description: 'Adds.',
    input: { type: 'object', properties: {} },
    run: () => '7',
  });
  const engine = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: toolLoop({
      prompt: 'What is 3 plus 4?',
      tools: [add],
      userOf: () => ({ interaction: user, kwargs }),
    }),
    server: engine,
    format,
    rewards: [reward('one', () => 1)],
    seed: 1,
    failures: { retries: 0, tolerateShare: 1 },
    ...rest,
  });
  const { trajectory } = group!.attempts[0]!;
  return {
    ...trajectory,
    said: trajectory.messages.filter(({ role }) => role === 'user').map(({ content }) => content),
  };
}

async function yaml(text: string, files: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-users-'));
  await writeFile(join(folder, 'users.yaml'), text);
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return loadInteractionFile(join(folder, 'users.yaml'));
}

const RETRY = 'Your response is incorrect! You need to reflect on your answer and try again.';

describe('E1 an interaction is started, stepped, scored and finalised', () => {
  const journalled = (events: string[], fails = false) =>
    interaction<{ count: number }>({
      name: 'journal',
      start: ({ kwargs }) => {
        events.push(`start ${String(kwargs.level)}`);
        return { count: 0 };
      },
      respond: (messages, { state }) => {
        events.push(`respond ${++state.count} after ${messages.length}`);
        if (fails) throw new Error('no more');
        return { done: state.count === 2, text: 'again', score: state.count / 2 };
      },
      score: ({ state }) => 10 * state.count,
      finish: () => void events.push('finish'),
    });

  test('in this order, once for each trajectory', async () => {
    const events: string[] = [];
    const trajectory = await talk(journalled(events), () => 'hm', { kwargs: { level: 3 } });
    expect(events).toEqual(['start 3', 'respond 1 after 2', 'respond 2 after 4', 'finish']);
    expect(trajectory.extra).toMatchObject({ user: 'journal', userScore: 20 });
    expect(trajectory.spans.filter(({ kind }) => kind === 'interaction').map(({ turn }) => turn)).toEqual([
      1, 2,
    ]);
  });

  test('finalised too when the turns run out, and when it throws: that is the environment, not the model', async () => {
    const cut: string[] = [];
    const { end } = await talk(journalled(cut), () => 'hm', { limits: { turns: 1 } });
    expect(end).toEqual({ kind: 'truncated', why: 'turns' });
    expect(cut.at(-1)).toBe('finish');
    const broken: string[] = [];
    const failed = await talk(journalled(broken, true), () => 'hm');
    expect(failed.end).toMatchObject({ kind: 'failed', boundary: 'environment' });
    expect(failed.end).toMatchObject({ message: "the simulated user 'journal' failed: no more" });
    expect(broken.at(-1)).toBe('finish');
  });

  test("a class with verl's life cycle loads from a path", async () => {
    const users = await yaml(
      'interaction:\n  - class_name: "mine.mjs#PatientInteraction"\n    config: { times: 2 }\n',
      {
        'mine.mjs': `export class PatientInteraction {
        constructor(config) { this.config = config; this.asked = new Map(); }
        startInteraction(id) { this.asked.set(id, 0); }
        generateResponse(id, messages, { word }) {
          const asked = this.asked.get(id) + 1; this.asked.set(id, asked);
          return [asked >= this.config.times, word + ' ' + this.config.name, asked / 10, {}];
        }
        calculateScore(id) { return this.asked.get(id); }
        finalizeInteraction(id) { this.asked.delete(id); }
      }`,
      },
    );
    const trajectory = await talk(users.patient!, () => 'hm', { kwargs: { word: 'more' } });
    expect(trajectory.said).toEqual(['What is 3 plus 4?', 'more patient']);
    expect(trajectory.turns.map((turn) => turn.reward)).toEqual([0.1, 0.2]);
    expect(trajectory.extra.userScore).toBe(2);
  });
});

describe('E2 several by name, from YAML', () => {
  test('a name is given, or made from the class', async () => {
    const users = await yaml(`interaction:
  - class_name: "verl.interactions.gsm8k_interaction.Gsm8kInteraction"
    config: {}
  - name: guide
    class_name: ScriptedInteraction
    config: { answers: [one, two], until: "done" }
`);
    expect(Object.keys(users)).toEqual(['gsm8k', 'guide']);
  });

  test.each([
    [
      'interaction: [{class_name: Gsm8kInteraction}, {class_name: a.Gsm8kInteraction}]',
      "Duplicate interaction name 'gsm8k' found",
    ],
    [
      'interaction: [{class_name: verl.x.WeatherInteraction}]',
      'is a Python class that has no counterpart here',
    ],
    ['interaction: [{name: x}]', 'class_name'],
    ['tools: []', 'has no list under `interaction:`'],
    ['interaction: [{class_name: LlmInteraction}]', 'needs config.url'],
    ['interaction: [{class_name: HumanInteraction}]', 'needs config.directory'],
  ])('%s is refused in words', async (text, message) => {
    await expect(yaml(text)).rejects.toThrow(message);
  });
});

test('E3 a row chooses its user by interaction_kwargs.name', () => {
  const [one, two] = [gsm8kInteraction(), scriptedInteraction()];
  const both = { gsm8k: one, scripted: two };
  expect(interactionOf(both, { name: 'scripted', level: 1 })).toEqual({
    interaction: two,
    kwargs: { name: 'scripted', level: 1 },
  });
  expect(interactionOf(both, undefined)).toBeUndefined();
  expect(interactionOf({}, { ground_truth: '7' })).toBeUndefined();
  expect(() => interactionOf({}, { name: 'gsm8k' })).toThrow('but the run has none; give users.file');
  expect(interactionOf({ gsm8k: one }, { ground_truth: '7' })?.interaction).toBe(one);
  expect(() => interactionOf(both, {})).toThrow("'name' key is required in interaction_kwargs");
  expect(() => interactionOf(both, { name: 'gsm9k' })).toThrow(
    'did you mean gsm8k? Available: gsm8k, scripted',
  );
});

describe('E4 the flow of turns', () => {
  test('the user speaks when no tool is asked for; the words are not trained; the last ones are not appended', async () => {
    const user = scriptedInteraction({ answers: ['Are you sure?'], until: /sure!/ });
    const trajectory = await talk(user, ({ turn }) =>
      turn === 0
        ? '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
        : turn === 1
          ? 'It is 7.'
          : 'I am sure!',
    );
    expect(trajectory.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
      'assistant',
    ]);
    expect(trajectory.turns.map((turn) => turn.reward)).toEqual([undefined, 0, 1]);
    const [segment] = trajectory.segments;
    const trainedText = tokenizer.decode(segment!.ids.filter((_, at) => segment!.trained[at] === 1));
    expect(trainedText).not.toContain('Are you sure?');
    expect(tokenizer.decode(segment!.ids)).toContain('Are you sure?');
    expect(trajectory.end).toEqual({ kind: 'completed' });
  });

  test('the last permitted reply is still scored; only a dialogue that needs another turn is cut', async () => {
    const right = await talk(gsm8kInteraction(), () => '#### 7', {
      kwargs: { ground_truth: '7' },
      limits: { turns: 1 },
    });
    expect(right.end).toEqual({ kind: 'completed' });
    expect(right.turns[0]!.reward).toBe(1);
    const wrong = await talk(gsm8kInteraction(), () => '#### 8', {
      kwargs: { ground_truth: '7' },
      limits: { turns: 2 },
    });
    expect(wrong.end).toEqual({ kind: 'truncated', why: 'turns' });
    expect(wrong.turns.map((turn) => turn.reward)).toEqual([0, 0]);
  });

  test('a reply that was cut is not answered', async () => {
    const trajectory = await talk(gsm8kInteraction(), () => ({ text: 'It is', finish: 'length' }), {
      kwargs: { ground_truth: '7' },
    });
    expect(trajectory.said).toHaveLength(1);
    expect(trajectory.end.kind).toBe('truncated');
  });
});

test('E5 gsm8k feedback', async () => {
  const trajectory = await talk(gsm8kInteraction(), ({ turn }) => (turn === 0 ? '#### 8' : 'Then #### 7'), {
    kwargs: { ground_truth: '7' },
  });
  expect(trajectory.said).toEqual(['What is 3 plus 4?', RETRY]);
  expect(trajectory.turns.map((turn) => turn.reward)).toEqual([0, 1]);
  const context = {
    id: 't',
    task: {},
    kwargs: { ground_truth: '7' },
    state: undefined,
    image: memoryImages().put,
    clock: virtualClock(),
    signal: new AbortController().signal,
  };
  expect(
    await gsm8kInteraction().respond([{ role: 'assistant', content: 'It is 7' }], context),
  ).toMatchObject({ done: false, score: 0 });
  expect(await gsm8kInteraction().respond([{ role: 'assistant', content: '#### 7' }], context)).toEqual({
    done: true,
    text: 'Your response is correct!',
    score: 1,
  });
});

describe('E6 a user played by an LLM', () => {
  async function standIn(answers: readonly (string | number)[]) {
    const asked: { messages: { role: string; content: string }[] }[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const answer = answers[Math.min(asked.length, answers.length - 1)]!;
      asked.push(JSON.parse(Buffer.concat(chunks).toString()));
      if (typeof answer === 'number') response.writeHead(answer).end();
      else response.end(JSON.stringify({ choices: [{ message: { content: answer } }] }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
  }

  test('it hears replies as its partner, says what it said, and ends the dialogue', async () => {
    const { url, asked } = await standIn(['Why?', '[DONE]']);
    const user = llmInteraction({ service: chatService({ url, model: 'user' }), persona: 'A pupil.' });
    const trajectory = await talk(user, ({ turn }) => `answer ${turn}`);
    expect(trajectory.said).toEqual(['What is 3 plus 4?', 'Why?']);
    expect(trajectory.end).toEqual({ kind: 'completed' });
    expect(asked[1]!.messages.slice(1)).toEqual([
      { role: 'assistant', content: 'What is 3 plus 4?' },
      { role: 'user', content: 'answer 0' },
      { role: 'assistant', content: 'Why?' },
      { role: 'user', content: 'answer 1' },
    ]);
    expect(asked[0]!.messages[0]!.content).toContain('A pupil.');
  });

  test('one that is down fails the environment, not the model', async () => {
    const { url, asked } = await standIn([503]);
    const user = llmInteraction({ service: chatService({ url, model: 'user', retries: 0 }) });
    const { end } = await talk(user, () => 'hm');
    expect(end).toMatchObject({
      kind: 'failed',
      boundary: 'environment',
      message: expect.stringContaining('503'),
    });
    expect(asked).toHaveLength(1);
  });
});

describe('a person in the loop', () => {
  test('a question outlives the process, others go on, and answer and rating become data', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'rollcall-questions-'));
    const user = () => humanInteraction({ directory, pollMs: 20 });
    const stopped = new AbortController();
    const first = talk(user(), () => 'Is it 7?', { signal: stopped.signal });
    await expect.poll(async () => (await openQuestions(directory)).length, { timeout: 20_000 }).toBe(1);
    const others = await talk(scriptedInteraction(), () => 'done');
    expect(others.end.kind).toBe('completed');
    stopped.abort('the machine went down');
    expect((await first).end.kind).toBe('cancelled');

    // The same run again: the same question, not a second one; the answer given in between is found.
    const [question] = await openQuestions(directory);
    expect(question).toMatchObject({ interaction: 'human', trajectory: 'train/step-1/task-0/attempt-0' });
    expect(question!.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Is it 7?' });
    await answerQuestion(directory, question!.key, { text: 'Yes.', done: true, rating: 0.5 });
    const second = await talk(user(), () => 'Is it 7?');
    expect(second.end).toEqual({ kind: 'completed' });
    expect(second.turns.map((turn) => turn.reward)).toEqual([0.5]);
    expect(await openQuestions(directory)).toEqual([]);
    expect((await readdir(directory)).sort()).toEqual([
      `${question!.key}.answer.json`,
      `${question!.key}.question.json`,
    ]);
    expect(JSON.parse(await readFile(join(directory, `${question!.key}.answer.json`), 'utf8'))).toMatchObject(
      { rating: 0.5 },
    );
    await expect(answerQuestion(directory, question!.key, { text: '', done: true })).rejects.toThrow(
      'has been answered',
    );
    await expect(answerQuestion(directory, '../../etc', { text: '', done: true })).rejects.toThrow(
      'there is no question',
    );
  });

  test('an answer written by hand counts once it is whole, and must have the shape of one', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'rollcall-questions-'));
    const asked = talk(humanInteraction({ directory, pollMs: 20 }), () => 'Is it 7?');
    await expect.poll(async () => (await openQuestions(directory)).length, { timeout: 20_000 }).toBe(1);
    const [question] = await openQuestions(directory);
    const file = join(directory, `${question!.key}.answer.json`);
    await writeFile(file, '{"text": "No');
    await new Promise((resolve) => setTimeout(resolve, 100));
    await writeFile(file, '{"text": "No.", "done": true}');
    expect((await asked).end).toEqual({ kind: 'completed' });
    await writeFile(file, '{"answer": "No."}');
    const { end } = await talk(humanInteraction({ directory, pollMs: 20 }), () => 'Is it 7?');
    expect(end).toMatchObject({ kind: 'failed', boundary: 'environment' });
    expect(end).toMatchObject({ message: expect.stringContaining('is not an answer') });
  });
});

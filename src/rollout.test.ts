import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  BYTE_TEMPLATE,
  byteModel,
  type ScriptedEngineOptions,
  scriptedEngine,
  virtualClock,
} from '../testing/index.ts';
import { agent } from './agent/agent.ts';
import { interaction } from './agent/interactions/interaction.ts';
import { tool } from './agent/tool.ts';
import { toolLoop } from './agent/tool-loop.ts';
import type { Chat } from './chat/chat.ts';
import { ConfigError, EngineError, RewardError, ToolError } from './errors.ts';
import { gateway } from './gateway/gateway.ts';
import type { GenerateRequest } from './inference/server.ts';
import { sleep } from './lib/clock.ts';
import { hashSeed } from './lib/random.ts';
import { reward } from './reward/reward.ts';
import type { RolloutOptions } from './rollout/options.ts';
import { Rollout, rollout } from './rollout.ts';
import type { Scored, Trajectory } from './types.ts';

const { tokenizer, format } = byteModel();
type Question = { question: string };

const callOf = (name: string, given: object) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;
const add = (a: number, b: number) => callOf('add', { a, b });

const adder = tool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => a + b,
});
const solver = toolLoop<Question>({ prompt: ({ question }) => question, tools: [adder] });
const one = reward<Question>('one', () => 1);

type Given = Partial<RolloutOptions<Question>> &
  Partial<Pick<ScriptedEngineOptions, 'firstTokenMs' | 'tokenMs'>> & {
    reply?: ScriptedEngineOptions['reply'];
  };

function setUp({ reply = () => 'done', firstTokenMs = 0, tokenMs = 0, ...rest }: Given = {}) {
  const clock = virtualClock();
  const engine = scriptedEngine({ tokenizer, clock, reply, firstTokenMs, tokenMs });
  const options: RolloutOptions<Question> = {
    tasks: [{ index: 5, task: { question: 'How many?' } }],
    attempts: 1,
    step: 3,
    agent: solver,
    server: engine,
    format,
    rewards: [one],
    seed: 11,
    clock,
    ...rest,
  };
  return { clock, engine, options };
}

async function play(given: Given = {}): Promise<Scored<Question> & ReturnType<typeof setUp>> {
  const { clock, engine, options } = setUp(given);
  const [group] = await rollout(options);
  expect(clock.pending).toBe(0);
  expect(engine.inFlight).toBe(0);
  return { ...group!.attempts[0]!, clock, engine, options };
}

/** The decoded trajectory with what was sampled in brackets. */
function marked({ segments }: Trajectory<Question>): string[] {
  return segments.map(({ ids, sampled }) => {
    let text = '';
    for (let at = 0; at < ids.length; at++) {
      if (sampled[at] && !sampled[at - 1]) text += '[';
      text += tokenizer.decode(ids.slice(at, at + 1));
      if (sampled[at] && !sampled[at + 1]) text += ']';
    }
    return text;
  });
}

describe('a trajectory', () => {
  test("whose tool's score() throws or hangs has failed for want of a reward, and its tool is closed", async () => {
    const closed: string[] = [];
    const scoredBy = (score: () => number | Promise<number>) =>
      toolLoop<Question>({
        prompt: ({ question }) => question,
        tools: [
          tool({
            name: 'add',
            description: 'Adds two numbers.',
            input: z.object({ a: z.number(), b: z.number() }),
            open: () => 'state',
            run: ({ a, b }) => a + b,
            score,
            close: ({ state }) => void closed.push(state),
          }),
        ],
      });
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => (turn === 0 ? add(2, 3) : 'It is 5.');
    const threw = await play({
      reply,
      failures: { tolerateShare: 1 },
      agent: scoredBy(() => {
        throw new Error('no such row');
      }),
    });
    const hung = await play({
      reply,
      failures: { tolerateShare: 1 },
      agent: scoredBy(() => new Promise(() => {})),
    });
    const ends = [threw, hung].map(({ trajectory, reward: total }) => ({ end: trajectory.end, total }));
    const failed = (why: string) => ({
      end: { kind: 'failed', boundary: 'reward', message: `score() of the tool 'add' failed: ${why}` },
      total: undefined,
    });
    expect(ends).toEqual([failed('no such row'), failed('took longer than 30000 ms')]);
    expect(closed).toEqual(['state', 'state']);
  });

  test("whose user's score() throws has failed for want of a reward, and its user is finished", async () => {
    const calls: string[] = [];
    const user = interaction({
      name: 'examiner',
      respond: () => ({ done: true, text: '' }),
      score: () => {
        throw new Error('no marks left');
      },
      finish: () => void calls.push('finished'),
    });
    const { trajectory, reward: total } = await play({
      failures: { tolerateShare: 1 },
      agent: toolLoop<Question>({
        prompt: ({ question }) => question,
        userOf: () => ({ interaction: user, kwargs: {} }),
      }),
    });
    expect(trajectory.end).toEqual({
      kind: 'failed',
      boundary: 'reward',
      message: "score() of the simulated user 'examiner' failed: no marks left",
    });
    expect(total).toBeUndefined();
    expect(calls).toEqual(['finished']);
  });

  test("whose user takes longer than its limit on the run's clock fails as an environment", async () => {
    const user = interaction({ name: 'asleep', timeoutMs: 60_000, respond: () => new Promise(() => {}) });
    const { trajectory, clock } = await play({
      failures: { tolerateShare: 1, retries: 0 },
      agent: toolLoop<Question>({
        prompt: ({ question }) => question,
        userOf: () => ({ interaction: user, kwargs: {} }),
      }),
    });
    expect(trajectory.end).toMatchObject({ kind: 'failed', boundary: 'environment' });
    expect(clock.now()).toBe(60_000);
  });

  test('is exact tokens: what was sampled as sampled, the rest by the template', async () => {
    const {
      trajectory,
      reward: total,
      engine,
    } = await play({
      reply: ({ turn }) => (turn === 0 ? `Let me see. ${add(2, 3)}${add(4, 5)}` : 'The answer is 5.'),
    });
    const schema = JSON.stringify(adder.schema);
    expect(marked(trajectory)[0]!.replace(/\s*[{].*"function".*[}]\s*(?=<\|im_end)/, '{schema}')).toBe(
      `<|im_start|>system\nTools:{schema}<|im_end|>\n<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n` +
        `[Let me see. ${add(2, 3)}${add(4, 5)}<|im_end|>]\n` +
        '<|im_start|>tool\n5<|im_end|>\n<|im_start|>tool\n9<|im_end|>\n<|im_start|>assistant\n' +
        '[The answer is 5.<|im_end|>]',
    );
    expect(schema).toContain('Adds two numbers.');
    expect(trajectory.end).toEqual({ kind: 'completed' });
    expect(trajectory.text).toBe('The answer is 5.');
    expect(trajectory.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
    ]);
    expect(trajectory.turns).toHaveLength(2);
    expect(trajectory.turns[0]!.toolRuns.map(({ result }) => result)).toEqual(['5', '9']);
    expect(total).toBe(1);
    const [segment] = trajectory.segments;
    for (const [index, { start, end }] of trajectory.turns.entries()) {
      expect(segment!.ids.slice(start, end)).toEqual(engine.replies[index]!.ids);
      expect(segment!.logprobs.slice(start, end)).toEqual(engine.replies[index]!.logprobs);
      expect(new Set(segment!.turns.slice(start, end))).toEqual(new Set([index + 1]));
    }
    expect(segment!.trained).toEqual(segment!.sampled);
  });

  test("samples with a seed that is its coordinates' hash", async () => {
    const { engine } = await play({ reply: ({ turn }) => (turn === 0 ? add(1, 2) : 'done') });
    expect(engine.requests.map(({ sampling }) => sampling.seed)).toEqual([
      hashSeed(11, 3, 5, 0, 1),
      hashSeed(11, 3, 5, 0, 2),
    ]);
    expect(engine.requests.map(({ id }) => id)).toEqual([
      'train/step-3/task-5/attempt-0/chat-0/reply-1/',
      'train/step-3/task-5/attempt-0/chat-0/reply-2/',
    ]);
  });

  test('records where its time went', async () => {
    const clock = virtualClock();
    const slow = tool({
      name: 'slow',
      description: '',
      input: {},
      run: async (_, { signal }) => {
        await sleep(clock, 70, signal);
        return 'ok';
      },
    });
    const engine = scriptedEngine({
      tokenizer,
      clock,
      firstTokenMs: 100,
      reply: ({ turn }) => (turn === 0 ? callOf('slow', {}) : 'done'),
    });
    const { options } = setUp();
    const judge = reward<Question>('judge', async ({ signal }) => {
      await sleep(clock, 30, signal);
      return 0.5;
    });
    const tasks = [1, 2].map((index) => ({ index, task: { question: '?' } }));
    const agentWithTool = toolLoop<Question>({ prompt: 'go', tools: [slow] });
    const groups = await rollout({
      ...options,
      tasks,
      server: engine,
      clock,
      agent: agentWithTool,
      rewards: [judge],
      concurrency: 1,
    });
    const spans = groups.map(({ attempts }) =>
      attempts[0]!.trajectory.spans.map(({ kind, name, turn, start, end }) => [kind, name, turn, start, end]),
    );
    expect(spans[0]).toEqual([
      ['generate', 'generate', 1, 0, 100],
      ['tool', 'slow', 1, 100, 170],
      ['generate', 'generate', 2, 170, 270],
      ['reward', 'judge', 2, 270, 300],
    ]);
    expect(spans[1]![0]).toEqual(['wait', 'slot', 0, 0, 300]);

    // Two at once on a server that is given one request at a time: each waits for the other's reply.
    const busy = Object.assign(engine, { load: async () => ({ running: 1, queued: 0, kvUse: 0 }) });
    const oneAtATime = gateway([busy], { ceiling: { first: 1, least: 1, most: 1 }, clock });
    const began = clock.now();
    const queued = await rollout({
      ...options,
      tasks: tasks.map(({ index, task }) => ({ index: index + 2, task })),
      server: oneAtATime,
      clock,
      agent: agentWithTool,
      rewards: [judge],
    });
    const timesOf = (kind: string, { attempts }: (typeof queued)[number]) =>
      attempts[0]!.trajectory.spans
        .filter((span) => span.kind === kind)
        .map(({ start, end }) => [start - began, end - began]);
    expect(queued.map((group) => timesOf('generate', group))).toEqual([
      [
        [0, 100],
        [200, 300],
      ],
      [
        [100, 200],
        [300, 400],
      ],
    ]);
    expect(queued.map((group) => timesOf('wait', group))).toEqual([
      [[170, 200]],
      [
        [0, 100],
        [270, 300],
      ],
    ]);
  });

  test('of several chats has a segment for each, one reward, and turns counted through', async () => {
    const delegating = agent<Question>(async ({ model }) => {
      const main = model.chat();
      main.user('plan');
      await main.sample();
      const helper = model.chat({ system: 'You help.' });
      helper.user('part one');
      const found = await helper.sample();
      main.user(`the helper says ${found.content}`);
      await main.sample();
    });
    const {
      trajectory,
      reward: total,
      engine,
    } = await play({
      agent: delegating,
      reply: ({ text }) =>
        text.includes('You help.') ? 'helped' : text.includes('helper') ? 'end' : 'begin',
    });
    expect(marked(trajectory)).toEqual([
      '<|im_start|>user\nplan<|im_end|>\n<|im_start|>assistant\n[begin<|im_end|>]\n' +
        '<|im_start|>user\nthe helper says helped<|im_end|>\n<|im_start|>assistant\n[end<|im_end|>]',
      '<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\npart one<|im_end|>\n<|im_start|>assistant\n[helped<|im_end|>]',
    ]);
    expect(trajectory.turns.map(({ segment }) => segment)).toEqual([0, 1, 0]);
    expect(Math.max(...trajectory.segments[1]!.turns)).toBe(2);
    expect(Math.max(...trajectory.segments[0]!.turns)).toBe(3);
    expect(trajectory.text).toBe('end');
    expect(total).toBe(1);
    expect(new Set(engine.requests.map(({ sampling }) => sampling.seed)).size).toBe(3);
  });

  test('keeps an excluded reply as context, and step credit with its turn', async () => {
    const picky = agent<Question>(async ({ model, extra }) => {
      const chat = model.chat();
      chat.user('draft');
      const draft = await chat.sample();
      chat.exclude(draft);
      chat.reward(draft, -0.5);
      chat.user('again');
      await chat.sample({ temperature: 0.2 });
      chat.user('last');
      await chat.sample();
      extra.drafts = 2;
    });
    const { trajectory } = await play({ agent: picky, reply: ({ turn }) => `reply ${turn}` });
    const { ids, sampled, trained } = trajectory.segments[0]!;
    const texts = trajectory.turns.map(({ start, end }) => tokenizer.decode(ids.slice(start, end)));
    expect(texts).toEqual(['reply 0<|im_end|>', 'reply 1<|im_end|>', 'reply 2<|im_end|>']);
    const kept = trajectory.turns.map(({ start, end }) =>
      trained.slice(start, end).every((flag) => flag === 1),
    );
    expect(kept).toEqual([false, false, true]); // the second was not sampled at the run's temperature
    expect(trajectory.turns.every(({ start, end }) => sampled.slice(start, end).every(Boolean))).toBe(true);
    expect(trajectory.turns[0]!.reward).toBe(-0.5);
    expect(trajectory.extra).toEqual({ drafts: 2 });
  });
});

describe('mistakes of the model', () => {
  test('a malformed call is reported to the model, and the trajectory continues', async () => {
    const { trajectory } = await play({
      reply: ({ turn }) => (turn === 0 ? '<tool_call>{"name": "add", "arguments": {</tool_call>' : 'sorry'),
    });
    expect(trajectory.turns).toHaveLength(2);
    expect(trajectory.turns[0]!.problems[0]!.kind).toBe('malformed-call');
    const told = trajectory.messages[2]!;
    expect(told.role).toBe('user');
    expect(told.content).toBe(trajectory.turns[0]!.problems[0]!.message);
    expect(trajectory.end.kind).toBe('completed');
  });

  test('a good call beside a malformed one is run, and both are answered', async () => {
    const { trajectory } = await play({
      reply: ({ turn }) => (turn === 0 ? `${add(1, 2)}<tool_call>{"nam</tool_call>` : 'sorry'),
    });
    expect(trajectory.messages.slice(2, 4)).toMatchObject([
      { role: 'tool', content: '3', name: 'add' },
      { role: 'tool', content: trajectory.turns[0]!.problems[0]!.message },
    ]);
  });

  test('an unknown tool, bad arguments and a tool that throws leave the trajectory trainable', async () => {
    const broken = tool({
      name: 'broken',
      description: '',
      input: {},
      run: () => {
        throw new Error('no such table');
      },
    });
    const { trajectory, reward: total } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [adder, broken] }),
      reply: ({ turn }) =>
        turn === 0 ? callOf('sqrt', {}) + callOf('add', { a: 'x' }) + callOf('broken', {}) : 'I give up',
    });
    expect(trajectory.turns[0]!.toolRuns.map(({ problem }) => problem?.kind)).toEqual([
      'unknown-tool',
      'bad-arguments',
      'tool-threw',
    ]);
    expect(trajectory.turns[0]!.toolRuns[0]!.result).toContain('Available tools: add, broken');
    expect(trajectory.end.kind).toBe('completed');
    expect(total).toBe(1);
    expect(trajectory.segments[0]!.trained.at(-1)).toBe(1);
  });

  test('calls beyond the cap are not run, and the model gets a message for each', async () => {
    let runs = 0;
    const counter = tool({ name: 'count', description: '', input: {}, run: () => String(++runs) });
    const { trajectory } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [counter] }),
      limits: { callsPerTurn: 2 },
      reply: ({ turn }) => (turn === 0 ? callOf('count', {}).repeat(4) : 'done'),
    });
    expect(runs).toBe(2);
    const { toolRuns } = trajectory.turns[0]!;
    expect(toolRuns.map(({ problem }) => problem?.kind)).toEqual([
      undefined,
      undefined,
      'too-many-calls',
      'too-many-calls',
    ]);
    expect(trajectory.messages.filter(({ role }) => role === 'tool')).toHaveLength(4);
  });

  test('parallel calls run at once, and their results keep the order of the calls', async () => {
    const clock = virtualClock();
    const wait = tool({
      name: 'wait',
      description: '',
      input: z.object({ ms: z.number() }),
      run: async ({ ms }, { signal }) => {
        await sleep(clock, ms, signal);
        return `waited ${ms}`;
      },
    });
    const engine = scriptedEngine({
      tokenizer,
      clock,
      reply: ({ turn }) =>
        turn === 0 ? [300, 100, 200].map((ms) => callOf('wait', { ms })).join('') : 'done',
    });
    const { trajectory } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [wait] }),
      server: engine,
      clock,
    });
    expect(trajectory.turns[0]!.toolRuns.map(({ result }) => result)).toEqual([
      'waited 300',
      'waited 100',
      'waited 200',
    ]);
    expect(clock.now()).toBe(300);
  });
});

describe('how a trajectory ends', () => {
  test('truncated(turns): calls of the last permitted turn are not run', async () => {
    let runs = 0;
    const counter = tool({ name: 'count', description: '', input: {}, run: () => String(++runs) });
    const { trajectory, reward: total } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [counter] }),
      limits: { turns: 3 },
      reply: () => callOf('count', {}),
    });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'turns' });
    expect(trajectory.turns).toHaveLength(3);
    expect(runs).toBe(2);
    expect(total).toBe(1);
    expect(trajectory.messages.at(-1)!.role).toBe('assistant');
  });

  test('completed: a final answer in the last permitted turn is not a truncation', async () => {
    const { trajectory } = await play({ limits: { turns: 1 } });
    expect(trajectory.end.kind).toBe('completed');
  });

  test('truncated(tokens): a reply cut by its limit is not obeyed', async () => {
    let runs = 0;
    const counter = tool({ name: 'count', description: '', input: {}, run: () => String(++runs) });
    const { trajectory } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [counter] }),
      limits: { tokensPerReply: 60 },
      reply: () => `${callOf('count', {})}and so on and so on and so on`,
    });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
    expect(trajectory.turns[0]!.finish).toBe('length');
    expect(trajectory.segments[0]!.sampled.reduce((sum, flag) => sum + flag, 0)).toBe(60);
    expect(runs).toBe(0);
  });

  test('truncated(tokens): an observation that does not fit is dropped, and the end is on sampled tokens', async () => {
    const big = tool({ name: 'big', description: '', input: {}, run: () => 'x'.repeat(200) });
    const reply = callOf('big', {});
    const length = reply.length - '<tool_call></tool_call>'.length + 3;
    for (const [tokensPerTrajectory, fits] of [
      [length + 200, false],
      [length + 300, true],
    ] as const) {
      const { trajectory, reward: total } = await play({
        agent: toolLoop<Question>({ prompt: 'go', tools: [big] }),
        limits: { tokensPerTrajectory },
        reply: ({ turn }) => (turn === 0 ? reply : 'ok'),
      });
      expect(trajectory.end).toEqual(fits ? { kind: 'completed' } : { kind: 'truncated', why: 'tokens' });
      expect(trajectory.segments[0]!.sampled.at(-1)).toBe(1);
      expect(trajectory.turns).toHaveLength(fits ? 2 : 1);
      expect(trajectory.messages.at(-1)!.role).toBe('assistant');
      expect(trajectory.turns[0]!.toolRuns).toHaveLength(1); // it was run, and the record says so
      expect(total).toBe(1);
    }
  });

  test('truncated(context): a prompt that fills the context samples nothing', async () => {
    const { trajectory, engine } = await play({ limits: { contextTokens: 20 } });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'context' });
    expect(engine.requests).toHaveLength(0);
    expect(trajectory.turns).toHaveLength(0);
  });

  test('truncated(context): a reply may use what is left of the context, not more', async () => {
    const { engine } = await play();
    const prompt = engine.requests[0]!.prompt.length;
    const { trajectory } = await play({ limits: { contextTokens: prompt + 2 } });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'context' });
    expect(trajectory.segments[0]!.ids.length).toBe(prompt + 2);
  });

  test('truncated(time): what was sampled until then is kept', async () => {
    const { trajectory, reward: total } = await play({
      limits: { secondsPerTrajectory: 1 },
      tokenMs: 100,
      reply: () => 'a long story',
    });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'time' });
    expect(marked(trajectory)[0]).toMatch(/\[a long sto\]$/);
    expect(trajectory.turns[0]!.finish).toBe('abort');
    expect(total).toBe(1);
  });

  test('truncated(time): a tool and an agent that do not listen are left behind', async () => {
    const deaf = tool({ name: 'deaf', description: '', input: {}, run: () => new Promise<string>(() => {}) });
    const waiting = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [deaf] }),
      limits: { secondsPerTrajectory: 5, toolTimeoutMs: 60_000 },
      reply: () => callOf('deaf', {}),
    });
    expect(waiting.trajectory.end).toEqual({ kind: 'truncated', why: 'time' });
    expect(waiting.clock.now()).toBe(5000);
    const stuck = await play({
      agent: agent<Question>(() => new Promise<void>(() => {})),
      limits: { secondsPerTrajectory: 5 },
    });
    expect(stuck.trajectory.end).toEqual({ kind: 'truncated', why: 'time' });
  });

  test('a reply that was not sampled from the distribution that the run trains is not trained', async () => {
    const sampledWith = async (...samples: Parameters<Chat['sample']>[]) => {
      const { trajectory } = await play({
        agent: agent<Question>(async ({ model }) => {
          const chat = model.chat();
          chat.user('go');
          for (const given of samples) await chat.sample(...given);
        }),
      });
      const { sampled, trained } = trajectory.segments[0]!;
      expect(sampled.includes(1)).toBe(true);
      return trained.includes(1);
    };
    expect(await sampledWith([{}])).toBe(true);
    expect(await sampledWith([{ temperature: undefined, topK: undefined } as object])).toBe(true);
    expect(await sampledWith([{ maxTokens: 3, stopStrings: ['.'] }])).toBe(true);
    for (const own of [
      { temperature: 0.5 },
      { topK: 2 },
      { topP: 0.5 },
      { minP: 0.1 },
      { repetitionPenalty: 1.2 },
    ])
      expect(await sampledWith([own])).toBe(false);
  });

  test('completed: an agent that asks for a short reply gets one', async () => {
    const { trajectory } = await play({
      agent: agent<Question>(async ({ model }) => {
        const chat = model.chat();
        chat.user('go');
        await chat.sample({ maxTokens: 3 });
      }),
      reply: () => 'a long story',
    });
    expect(trajectory.turns[0]!.finish).toBe('length');
    expect(trajectory.end).toEqual({ kind: 'completed' });
  });

  test('truncated(tokens): chats that sample at once share the tokens of their trajectory', async () => {
    const { trajectory } = await play({
      agent: agent<Question>(async ({ model }) => {
        const ask = async () => {
          const chat = model.chat();
          chat.user('go');
          await chat.sample();
        };
        await Promise.allSettled([ask(), ask(), ask()]);
      }),
      limits: { tokensPerTrajectory: 20, tokensPerReply: 12 },
      tokenMs: 1,
      reply: () => 'a long story without an end',
    });
    const sampled = trajectory.segments.reduce((sum, one) => sum + one.sampled.reduce((a, b) => a + b, 0), 0);
    expect(sampled).toBeLessThanOrEqual(20);
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
  });

  test('an agent that scores itself needs no rewards', async () => {
    const scored = await play({
      rewards: [],
      agent: agent<Question>(async ({ model, reward: score }) => {
        const chat = model.chat();
        chat.user('go');
        await chat.sample();
        score(0.5);
      }),
    });
    expect(scored.reward).toBe(0.5);
    expect((await play({ rewards: [] })).reward).toBeUndefined();
  });

  test('failed(infrastructure): time that a server lets pass without an answer is not scored', async () => {
    const deaf = { generate: () => new Promise<never>(() => {}) };
    const gone = {
      generate: ({ signal }: GenerateRequest) =>
        new Promise<never>((_, reject) =>
          signal!.addEventListener('abort', () => reject(new EngineError('nothing given back'))),
        ),
    };
    for (const [server, message] of [
      [deaf, 'the server gave no answer until time was up'],
      [gone, 'nothing given back'],
      [gateway([{ ...scriptedEngine({ tokenizer, reply: () => '' }), ...gone }]), 'nothing given back'],
    ] as const) {
      for (const limits of [{ secondsPerReply: 3 }, { secondsPerTrajectory: 3 }]) {
        const { trajectory, reward: total } = await play({ server, limits, failures: { tolerateShare: 1 } });
        expect(trajectory.end).toEqual({ kind: 'failed', boundary: 'infrastructure', message });
        expect(total).toBeUndefined();
      }
    }
  });

  test('an agent that swallows the stop cannot go on', async () => {
    const { trajectory, engine } = await play({
      limits: { turns: 1 },
      agent: agent<Question>(async ({ model }) => {
        const chat = model.chat();
        for (let times = 0; times < 5; times++) {
          chat.user('more');
          await chat.sample().catch(() => {});
        }
      }),
    });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'turns' });
    expect(engine.requests).toHaveLength(1);
  });

  test('failed(infrastructure): tried elsewhere with the same ids before it fails', async () => {
    const clock = virtualClock();
    const gone = scriptedEngine({
      tokenizer,
      clock,
      reply: () => {
        throw new Error('ECONNRESET');
      },
    });
    const sound = scriptedEngine({ tokenizer, clock, reply: () => 'done' });
    const saved = await play({ clock, server: gateway([gone, sound], { clock }) });
    expect(saved.trajectory.end.kind).toBe('completed');
    expect(sound.requests[0]!.prompt).toEqual(gone.requests[0]!.prompt);
    const lost = await play({ clock, server: gateway([gone], { clock }), failures: { tolerateShare: 1 } });
    expect(lost.trajectory.end).toMatchObject({ kind: 'failed', boundary: 'infrastructure' });
    expect(lost.reward).toBeUndefined();
    expect(lost.rewards).toEqual({});
  });

  test('failed(environment): opened again up to the bound, closed each time it opened', async () => {
    let opens = 0;
    let closes = 0;
    const fragile = (failures: number) =>
      tool({
        name: 'browser',
        description: '',
        input: {},
        open: () => {
          if (++opens <= failures) throw new Error('no browser');
          return { page: 1 };
        },
        run: (_, { state }) => `page ${state.page}`,
        close: () => {
          closes++;
        },
      });
    const given = (failures: number): Given => ({
      agent: toolLoop<Question>({ prompt: 'go', tools: [fragile(failures)] }),
      reply: ({ text }) => (text.includes('page 1') ? 'done' : callOf('browser', {})),
      failures: { tolerateShare: 1, retries: 2 },
    });
    const saved = await play(given(2));
    expect(saved.trajectory.end.kind).toBe('completed');
    expect([opens, closes]).toEqual([3, 1]);
    opens = 0;
    const lost = await play(given(9));
    expect(opens).toBe(3);
    expect(lost.trajectory.end).toEqual({
      kind: 'failed',
      boundary: 'environment',
      message: "tool 'browser' could not be opened: no browser",
    });
    expect(lost.reward).toBeUndefined();
  });

  test('failed(agent): recorded, not retried; too large a share, or the first where that is asked, stops the rollout', async () => {
    let runs = 0;
    const faulty = agent<Question>(() => {
      runs++;
      throw new TypeError('task.qestion is undefined');
    });
    const { trajectory, reward: total } = await play({ agent: faulty, failures: { tolerateShare: 1 } });
    expect(trajectory.end).toEqual({
      kind: 'failed',
      boundary: 'agent',
      message: 'task.qestion is undefined',
    });
    expect([runs, total]).toEqual([1, undefined]);
    const stopped = rollout(setUp({ agent: faulty, attempts: 4, stopOnAgentFailure: true }).options);
    await expect(stopped).rejects.toThrow(ConfigError);
    await expect(stopped).rejects.toThrow(/the agent failed in .*attempt-\d: task.qestion is undefined/);
    await expect(stopped).rejects.toMatchObject({ cause: expect.any(TypeError) }); // with the agent's own stack
    const all = rollout(setUp({ agent: faulty, attempts: 4 }).options);
    await expect(all).rejects.toThrow(/3 of 4 attempts failed \(agent\).* task.qestion is undefined/);
    await expect(all).rejects.toMatchObject({ cause: expect.any(TypeError) });
    let attempts = 0;
    const flaky = agent<Question>(async ({ model }) => {
      if (++attempts === 2) throw new Error('ECONNRESET');
      const chat = model.chat();
      chat.user('go');
      await chat.sample();
    });
    const [group] = await rollout(setUp({ agent: flaky, attempts: 4 }).options);
    expect(group!.attempts.filter(({ reward: value }) => value === undefined)).toHaveLength(1);
  });

  test('an agent that allows few attempts at once has no more of them, and their time runs from their start', async () => {
    const clock = virtualClock();
    let [running, most] = [0, 0];
    const slow = agent<Question>(
      async ({ model, clock: time }) => {
        most = Math.max(most, ++running);
        await sleep(time, 400_000);
        running--;
        const chat = model.chat();
        chat.user('go');
        await chat.sample();
      },
      { atOnce: 2 },
    );
    const [group] = await rollout(setUp({ agent: slow, attempts: 6, clock }).options);
    expect(most).toBe(2);
    expect(group!.attempts.map(({ trajectory }) => trajectory.end.kind)).toEqual(Array(6).fill('completed'));
    expect(() => agent(() => {}, { name: 'none', atOnce: 0 })).toThrow(/atOnce of agent 'none' is 0/);
  });

  test('failed(reward): retried, then the attempt has no reward', async () => {
    let tries = 0;
    const flaky = reward<Question>('flaky', () => {
      tries++;
      throw new Error('judge is down');
    });
    const { trajectory, reward: total } = await play({
      rewards: [one, flaky],
      failures: { retries: 2, tolerateShare: 1 },
    });
    expect(tries).toBe(3);
    expect(trajectory.end).toMatchObject({ kind: 'failed', boundary: 'reward' });
    expect(total).toBeUndefined();
  });

  test('cancelled(why): every trajectory ends so, tools are closed', async () => {
    const stop = new AbortController();
    let open = 0;
    const session = tool({
      name: 'session',
      description: '',
      input: {},
      open: () => ++open,
      run: () => new Promise<string>(() => {}),
      close: () => {
        open--;
      },
    });
    const { clock, options } = setUp({
      agent: toolLoop<Question>({ prompt: 'go', tools: [session] }),
      reply: () => callOf('session', {}),
      attempts: 6,
      concurrency: 4,
      signal: stop.signal,
    });
    clock.timer(50, () => stop.abort('the user stopped the run'));
    const [group] = await rollout(options);
    expect(group!.attempts.map(({ trajectory }) => trajectory.end)).toEqual(
      Array(6).fill({ kind: 'cancelled', why: 'the user stopped the run' }),
    );
    expect(group!.attempts.every(({ reward: value }) => value === undefined)).toBe(true);
    expect(open).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

describe('tool state', () => {
  test('lives for the whole trajectory, is its own, and is closed once after its score', async () => {
    const log: string[] = [];
    const memory = tool({
      name: 'note',
      description: '',
      input: z.object({ text: z.string() }),
      open: ({ task, trajectory }) => {
        log.push(`open ${trajectory.attempt} ${(task as Question).question}`);
        return { notes: [] as string[] };
      },
      run: ({ text }, { state, trajectory }) => {
        state.notes.push(text);
        return `${state.notes.length} notes in turn ${trajectory.turns.length}`;
      },
      score: ({ state }) => state.notes.length / 10,
      close: ({ state, trajectory }) => {
        log.push(`close ${trajectory.attempt} ${state.notes.join()}`);
      },
    });
    const { options } = setUp({
      agent: toolLoop<Question>({ prompt: 'go', tools: [memory] }),
      attempts: 2,
      concurrency: 1,
      reply: ({ turn, request }) =>
        turn < 2 ? callOf('note', { text: `${request.trajectory.at(-1)}${turn}` }) : 'done',
    });
    const [group] = await rollout(options);
    expect(log).toEqual(['open 0 How many?', 'close 0 00,01', 'open 1 How many?', 'close 1 10,11']);
    expect(group!.attempts[0]!.trajectory.turns[1]!.toolRuns[0]!.result).toBe('2 notes in turn 2');
    expect(group!.attempts[0]!.trajectory.extra.toolScores).toEqual({ note: 0.2 });
  });

  test('that fails to close is noted and does no harm', async () => {
    const sticky = tool({
      name: 'sticky',
      description: '',
      input: {},
      run: () => 'ok',
      close: () => {
        throw new Error('still locked');
      },
    });
    const { trajectory } = await play({
      agent: toolLoop<Question>({ prompt: 'go', tools: [sticky] }),
      reply: ({ turn }) => (turn === 0 ? callOf('sticky', {}) : 'done'),
    });
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.spans.at(-2)).toMatchObject({
      name: 'close sticky',
      attributes: { error: 'still locked' },
    });
  });
});

describe('a rollout', () => {
  const tasks = Array.from({ length: 10 }, (_, index) => ({
    index: 90 - index,
    task: { question: `q${index}` },
  }));

  test('keeps the order of tasks and attempts whatever finishes first', async () => {
    const arrived: string[] = [];
    const { options } = setUp({
      tasks,
      attempts: 3,
      concurrency: 7,
      reply: ({ text, random }) => `${text.match(/q\d/)![0]} ${random.integer(1000)}`,
      firstTokenMs: ({ random }) => random.integer(1000),
      onTrajectory: ({ trajectory }) => arrived.push(trajectory.id),
    });
    const groups = await rollout(options);
    expect(groups.map(({ taskIndex }) => taskIndex)).toEqual(tasks.map(({ index }) => index));
    for (const [index, { attempts }] of groups.entries()) {
      expect(attempts.map(({ trajectory }) => trajectory.attempt)).toEqual([0, 1, 2]);
      for (const { trajectory } of attempts) expect(trajectory.text).toMatch(`q${index} `);
    }
    const inOrder = groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory.id));
    expect(arrived).not.toEqual(inOrder);
    expect([...arrived].sort()).toEqual([...inOrder].sort());
  });

  test('gives the same tokens at any concurrency', async () => {
    const texts = async (concurrency: number) => {
      const { options } = setUp({
        tasks,
        attempts: 2,
        concurrency,
        reply: ({ turn, random }) =>
          turn < 2 ? add(random.integer(9), random.integer(9)) : `${random.next()}`,
        firstTokenMs: ({ random }) => random.integer(50),
      });
      const groups = await rollout(options);
      return groups.map(({ attempts }) => attempts.map(({ trajectory }) => marked(trajectory)));
    };
    expect(await texts(1)).toEqual(await texts(20));
  });

  test('never has more trajectories in progress than it may, and reports progress', async () => {
    let most = 0;
    let last: unknown;
    const { options } = setUp({
      tasks,
      attempts: 4,
      concurrency: 6,
      firstTokenMs: 20,
      onProgress: (progress) => {
        most = Math.max(most, progress.running);
        last = progress;
      },
    });
    await rollout(options);
    expect(most).toBe(6);
    expect(last).toEqual({
      step: 3,
      finished: 40,
      running: 0,
      total: 40,
      sampledTokens: 40 * 'done.'.length,
    });
  });

  test('refuses tools that the prompt does not name, because they would never be called', async () => {
    const toolless = byteModel({
      template: BYTE_TEMPLATE.split('{%- endif %}').slice(1).join('{%- endif %}'),
    });
    const given = { format: toolless.format, stopOnAgentFailure: true };
    await expect(rollout(setUp(given).options)).rejects.toThrow(
      /does not tell the model of add: .* no tools/,
    );
    const told = toolLoop<Question>({ system: 'You can call add.', prompt: 'go', tools: [adder] });
    expect(await rollout(setUp({ ...given, agent: told }).options)).toHaveLength(1);
  });

  test("renders a task's first prompt once for all attempts", async () => {
    let renders = 0;
    const counting = {
      ...format,
      renderPrompt: (...given: Parameters<typeof format.renderPrompt>) => {
        renders++;
        return format.renderPrompt(...given);
      },
    };
    const { options } = setUp({ tasks, attempts: 8, format: counting });
    await rollout(options);
    expect(renders).toBe(10);
  });

  test('stops and names the cause when too many attempts fail for one', async () => {
    const failing = (count: number, share: number) => {
      let failed = 0;
      return rollout(
        setUp({
          tasks,
          attempts: 2,
          concurrency: 1,
          failures: { tolerateShare: share },
          agent: agent<Question>(async ({ model }) => {
            if (failed++ < count) throw new Error('typo');
            await model.chat({ messages: [{ role: 'user', content: 'How many?' }] }).sample();
          }),
        }).options,
      );
    };
    expect(await failing(5, 0.25)).toHaveLength(10);
    await expect(failing(6, 0.25)).rejects.toThrow(
      /^6 of 20 attempts failed \(agent\), more than the tolerated share of 0.25; for example .*: typo$/,
    );
    const classes = [
      [EngineError, { reply: () => Promise.reject(new Error('gone')) }],
      [RewardError, { rewards: [reward<Question>('nan', () => Number.NaN)] }],
      [
        ToolError,
        {
          agent: agent<Question>(() => {
            throw new ToolError('MCP server is down');
          }),
        },
      ],
    ] as const;
    for (const [type, given] of classes) await expect(rollout(setUp(given).options)).rejects.toThrow(type);
  });

  test('an agent that returns without asking the model has failed', async () => {
    const [group] = await rollout(
      setUp({ agent: agent<Question>(() => {}), failures: { tolerateShare: 1 } }).options,
    );
    expect(group!.attempts[0]!.reward).toBeUndefined();
    expect(group!.attempts[0]!.trajectory.end).toEqual({
      kind: 'failed',
      boundary: 'agent',
      message: 'the agent returned without asking the model',
    });
  });

  test('measures the tolerated share against every attempt in progress during the step', async () => {
    let begun = 0;
    const someFail = (isFailing: (number: number) => boolean) =>
      new Rollout(
        setUp({
          agent: agent<Question>(async ({ model }) => {
            if (isFailing(begun++)) throw new Error('typo');
            await model.chat({ messages: [{ role: 'user', content: 'How many?' }] }).sample();
          }),
        }).options,
      );
    const group = { index: 5, task: { question: 'How many?' }, step: 3, firstAttempt: 0, attempts: 4 };
    const refilled = someFail((number) => number % 4 === 0);
    refilled.begin(3, 4);
    for (let round = 0; round < 5; round++) await refilled.attemptAll(group);
    refilled.throwIfTooManyFailed();

    begun = 0;
    const ahead = someFail((number) => number < 3);
    const started = Array.from({ length: 3 }, () => ahead.attemptAll(group));
    ahead.begin(3, 4); // the step's own attempts, and those that began before it
    await Promise.all(started);
    ahead.throwIfTooManyFailed();

    begun = 0;
    const failing = someFail(() => true);
    failing.begin(3, 4);
    await failing.attemptAll(group);
    expect(() => failing.throwIfTooManyFailed()).toThrow(/^3 of 4 attempts failed/);
  });
});

describe('a group of the first attempts to end', () => {
  const waits = [400, 100, 300, 200];
  const attemptOf = (trajectory: string) => Number(/attempt-(\d+)$/.exec(trajectory)![1]);
  const race = async (reply: ScriptedEngineOptions['reply'], wanted: number) => {
    const seen: string[] = [];
    const { options, clock } = setUp({
      reply,
      firstTokenMs: ({ request }) => waits[attemptOf(request.trajectory) - 10]!,
      onTrajectory: ({ trajectory: { attempt, end } }) => seen.push(`${attempt} ${end.kind}`),
      failures: { tolerateShare: 1 },
    });
    const rolling = new Rollout(options);
    rolling.begin(3, 4);
    const place = { index: 5, task: { question: 'How many?' }, step: 3, firstAttempt: 10 };
    const group = await rolling.attemptAll({ ...place, attempts: 4, wanted });
    return { attempts: group.attempts.map(({ trajectory }) => trajectory.attempt), seen, at: clock.now() };
  };

  test('is in order of attempt, and the rest is cancelled', async () => {
    const { attempts, seen, at } = await race(() => 'done', 2);
    expect(attempts).toEqual([11, 13]);
    expect(seen.slice(0, 2)).toEqual(['11 completed', '13 completed']);
    expect(seen.slice(2).sort()).toEqual(['10 cancelled', '12 cancelled']);
    expect(at).toBe(200);
  });

  test('takes those that did not fail, as long as there are enough', async () => {
    const gone = (failing: readonly number[]) =>
      (({ request }) => {
        if (failing.includes(attemptOf(request.trajectory))) throw new EngineError('gone');
        return 'done';
      }) satisfies ScriptedEngineOptions['reply'];
    expect((await race(gone([11]), 2)).attempts).toEqual([12, 13]);
    expect((await race(gone([10, 11, 13]), 2)).attempts).toContain(12);
    expect((await race(gone([10, 11, 13]), 2)).attempts).toHaveLength(2);
  });
});

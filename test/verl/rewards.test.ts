/** verl's rewards, row by row of its feature table (K), and where we do better. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, type Reward, reward, rollout, type Task, tool, toolLoop } from 'rollcall';
import type { RolloutOptions } from 'rollcall/options';
import { batchReward, groupReward, rewardModel } from 'rollcall/rewards';
import { byteModel, type ScriptedEngineOptions, scriptedEngine, virtualClock } from 'rollcall/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { TaskRow } from '../../src/dataset/task-row.ts';
import { resolveRun } from '../../src/options/resolve-run.ts';
import { openDescribedRewards, type RewardsDescription } from '../../src/reward/described-rewards.ts';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

const adder = tool({
  name: 'add',
  description: 'Adds.',
  input: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
  },
  run: (input) => {
    const { a, b } = input as { a: number; b: number };
    return { content: String(a + b), reward: 0.25 };
  },
});

async function play<T extends Task>(
  reply: ScriptedEngineOptions['reply'],
  rewards: readonly Reward<T>[],
  more: Partial<RolloutOptions<T>> = {},
) {
  return rollout<T>({
    tasks: [{ index: 0, task: {} as T }],
    attempts: 1,
    step: 1,
    agent: toolLoop<T>({ prompt: 'What is 3 plus 4?', tools: [adder] }),
    server: scriptedEngine({ tokenizer, reply }),
    format,
    rewards,
    seed: 1,
    ...more,
  });
}

const DESCRIBED: RewardsDescription = {
  module: null,
  name: 'compute_score',
  over: 'trajectory',
  config: {},
  concurrency: 2,
  timeoutSeconds: 30,
  limits: { concurrency: null, requestsPerMinute: null, tokensPerMinute: null, tokensPerRequest: 2000 },
  model: { url: null, name: '' },
  sandbox: { url: null, concurrency: 64, memoryMiB: 1024 },
  shaping: {
    ...{
      enabled: false,
      per: 'trajectory',
      toolCallSuccess: 0.1,
      validReasoning: 0.05,
      invalidToolCall: -0.1,
    },
    ...{ maxTurnsExceeded: -0.5, redundantToolCall: -0.05, toolFormat: 0 },
  },
};

async function open(described: Partial<RewardsDescription>, module?: string, clock = virtualClock()) {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-rewards-'));
  if (module !== undefined) await writeFile(join(directory, 'reward.mjs'), module);
  const opened = await openDescribedRewards(
    { ...DESCRIBED, ...(module !== undefined && { module: 'reward.mjs' }), ...described },
    { directory, clock },
  );
  onTestFinished(() => opened.close());
  return opened;
}

const row = (more: Partial<TaskRow> = {}): TaskRow => ({
  prompt: [{ role: 'user', content: 'What is 3 plus 4?' }],
  toolsKwargs: {},
  extraInfo: {},
  ...more,
});

const usesTool: ScriptedEngineOptions['reply'] = ({ turn }) =>
  turn === 0 ? `I add. ${call('add', { a: 3, b: 4 })}` : 'So it is\n#### 7';

describe('K1 custom reward function', () => {
  test('compute_score gets the source, the whole response, the truth and the extra info', async () => {
    const { rewards } = await open(
      { config: { bonus: 0.5 } },
      `export function compute_score(source, solution, truth, extra, { bonus }) {
        const whole = solution.includes('I add.') && solution.includes('7') && !solution.includes('<|');
        return source === 'mine' && truth === '7' && extra.level === 3 && whole && solution.endsWith('#### 7') ? 1 + bonus : 0;
      }`,
    );
    const task = row({ dataSource: 'mine', groundTruth: '7', extraInfo: { level: 3 } });
    const [group] = await play<TaskRow>(usesTool, rewards, { tasks: [{ index: 0, task }] });
    expect(group!.attempts[0]).toMatchObject({ reward: 1.5, rewards: { score: 1.5, 'score/acc': 1.5 } });
  });

  test('an async one may return a mapping: its score counts, its other numbers are logged', async () => {
    const { rewards } = await open(
      { name: 'mine' },
      'export async function mine() { return { score: 0.5, acc: true, note: "words", length: 4 }; }',
    );
    const [group] = await play<TaskRow>(usesTool, rewards, { tasks: [{ index: 0, task: row() }] });
    expect(group!.attempts[0]).toMatchObject({
      reward: 0.5,
      rewards: { score: 0.5, 'score/acc': 1, 'score/length': 4 },
    });
  });

  test('one that never yields is ended in its worker at the time limit, and the attempt fails, not the run', async () => {
    const { rewards } = await open(
      { timeoutSeconds: 4 },
      'export function compute_score(source) { while (source === "hang"); return 1; }',
    );
    const groups = await play<TaskRow>(usesTool, rewards, {
      tasks: ['hang', 'fine'].map((dataSource, index) => ({ index, task: row({ dataSource }) })),
      failures: { retries: 0, tolerateShare: 0.5 },
    });
    expect(groups[0]!.attempts[0]!.trajectory.end).toMatchObject({ kind: 'failed', boundary: 'reward' });
    expect(groups[1]!.attempts[0]!.reward).toBe(1);
  });

  test('a module without the function, or without a file, is an error before the start', async () => {
    await expect(open({}, 'export const other = 1;')).rejects.toThrow(
      'does not export a function compute_score; it exports other',
    );
    await expect(open({ module: 'gone.mjs' })).rejects.toThrow('there is no file');
  });
});

test('K2 extra_info tells of turns, tools and what they gave', async () => {
  const { rewards } = await open(
    {},
    `export function compute_score(source, solution, truth, extra) {
      const { num_turns, tool_rewards, turn_scores, rollout_reward_scores } = extra;
      // verl counts the prompt, two replies and one result.
      return num_turns === 4 && tool_rewards.join() === '0.25' && turn_scores.length === 0 &&
        Array.isArray(rollout_reward_scores.user_turn_rewards) && extra.agent === 'mine' ? 1 : 0;
    }`,
  );
  const inner = toolLoop<TaskRow>({ prompt: 'What is 3 plus 4?', tools: [adder] });
  const named = agent<TaskRow>(
    async (context) => {
      context.extra.agent = 'mine';
      context.extra.callback = () => 1; // cannot be sent to a worker, and does not have to
      await inner.run(context);
    },
    { tools: [adder] },
  );
  const [group] = await play<TaskRow>(usesTool, rewards, {
    tasks: [{ index: 0, task: row() }],
    agent: named,
  });
  expect(group!.attempts[0]!.reward).toBe(1);
});

describe('K3 reward managers', () => {
  test('naive, dapo, gdpo, rate_limited and remote are known by name, others are refused', async () => {
    const refused = async (...overrides: string[]) => (await resolveRun({ overrides })).refused.join();
    for (const key of ['reward_model.reward_manager', 'reward.reward_manager.name', 'reward_manager']) {
      for (const known of ['naive', 'dapo', 'gdpo', 'rate_limited', 'remote'])
        expect(await refused(`${key}=${known}`)).not.toContain('reward_manager');
      expect(await refused(`${key}=prime`)).toContain(`${key}=prime: not yet: write a reward in TypeScript`);
    }
    expect(await refused('reward.reward_manager.source=register')).not.toContain('reward_manager');
    const named = ['reward.reward_manager.module.path=m.ts', 'reward.reward_manager.module.name=my_task'];
    const { options } = await resolveRun({ overrides: named });
    expect(options.rewards).toMatchObject({ module: 'm.ts', name: 'my_task', over: 'batch' });
    const { missing } = await resolveRun({ overrides: ['reward.reward_manager.module.path=m.py'] });
    expect(missing.join()).toContain('m.py is Python; write reward.ts');
  });

  test('a reward may see its group or the whole batch', async () => {
    const rank = groupReward('rank', ({ trajectories }) => {
      const lengths = trajectories.map(({ text }) => text.length);
      return lengths.map((length) => lengths.filter((other) => other > length).length);
    });
    const share = batchReward(
      'share',
      ({ trajectories }) => trajectories.map(() => 1 / trajectories.length),
      {
        weight: 10,
      },
    );
    const one = reward('one', () => 1, { weight: 2 });
    const arrived: (number | undefined)[] = [];
    const groups = await play(
      ({ request }) => 'x'.repeat(1 + Number(/attempt-(\d)/.exec(request.id)![1])),
      [one, rank, share],
      {
        tasks: [0, 1].map((index) => ({ index, task: {} })),
        attempts: 3,
        onTrajectory: (scored) => arrived.push(scored.reward),
      },
    );
    for (const group of groups) {
      expect(group.attempts.map(({ rewards }) => rewards.rank)).toEqual([2, 1, 0]);
      expect(group.attempts.map((attempt) => attempt.reward)).toEqual(
        [2, 1, 0].map((place) => expect.closeTo(2 + place + 10 / 6)),
      );
    }
    expect(arrived).toHaveLength(6);
    expect(arrived.every((value) => value !== undefined && value > 2)).toBe(true);
  });

  test('a group reward that gives too few numbers, or throws, fails its group only', async () => {
    const odd = groupReward('odd', ({ trajectories }) => {
      if (trajectories[0]!.taskIndex === 0) return [1];
      return trajectories.map(() => 1);
    });
    const groups = await play(() => 'done', [odd], {
      tasks: [0, 1].map((index) => ({ index, task: {} })),
      attempts: 2,
      failures: { retries: 0, tolerateShare: 1 },
      clock: virtualClock(),
      server: scriptedEngine({ tokenizer, reply: () => 'done' }),
    });
    expect(groups[0]!.attempts.map(({ trajectory }) => trajectory.end.kind)).toEqual(['failed', 'failed']);
    expect(groups[0]!.attempts[0]!.trajectory.end).toMatchObject({
      boundary: 'reward',
      message: expect.stringContaining('1 numbers for 2 trajectories'),
    });
    expect(groups[1]!.attempts.map((attempt) => attempt.reward)).toEqual([1, 1]);
  });
});

describe('K4 streaming reward', () => {
  test('a trajectory is scored as soon as it ends, while others still sample', async () => {
    const clock = virtualClock();
    const scoredAt: number[] = [];
    const timed = reward('timed', () => scoredAt.push(clock.now()));
    await play(() => 'done', [timed], {
      tasks: [0, 1].map((index) => ({ index, task: {} })),
      clock,
      server: scriptedEngine({
        tokenizer,
        clock,
        reply: () => 'done',
        firstTokenMs: ({ request }) => (request.id.includes('task-0') ? 10 : 5000),
      }),
    });
    expect(scoredAt).toEqual([10, 5000]);
  });

  test("the agent's own reward wins, and no reward function is asked", async () => {
    const own = agent(async ({ model, reward: give }) => {
      await model.chat({ messages: [{ role: 'user', content: 'Hello' }] }).sample();
      give(0.75);
    });
    const never = reward('never', () => {
      throw new Error('asked');
    });
    const beside = groupReward('beside', ({ trajectories }) => trajectories.map(() => 9));
    const [group] = await play(() => 'done', [never, beside], { agent: own });
    expect(group!.attempts[0]).toMatchObject({ reward: 0.75, rewards: { agent: 0.75 } });
  });
});

describe('K5 reward model over HTTP', () => {
  async function classifier(answers: readonly (number | object)[]) {
    const asked: unknown[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const answer = answers[Math.min(asked.length, answers.length - 1)]!;
      asked.push(JSON.parse(Buffer.concat(chunks).toString()));
      response
        .writeHead(typeof answer === 'number' ? answer : 200)
        .end(typeof answer === 'number' ? '' : JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/classify`, asked };
  }

  test('the last probability, or the last embedding number, of the dialogue is the reward', async () => {
    for (const data of [{ probs: [0.1, 0.9] }, { embedding: [3, 0.9] }]) {
      const { url, asked } = await classifier([{ data: [data] }]);
      const [group] = await play(() => 'done', [rewardModel({ url, model: 'rm' })]);
      expect(group!.attempts[0]!.reward).toBe(0.9);
      expect(asked[0]).toMatchObject({
        model: 'rm',
        messages: [
          { role: 'user', content: 'What is 3 plus 4?' },
          { role: 'assistant', content: 'done' },
        ],
      });
    }
  });

  test('a failing server is asked up to 17 times with growing pauses, a refusal once', async () => {
    const { url, asked } = await classifier([503]);
    const waits: number[] = [];
    const clock = {
      now: () => 0,
      timer: (milliseconds: number, fire: () => void) => {
        if (milliseconds < 60_000) {
          waits.push(milliseconds);
          setImmediate(fire);
        }
        return () => {};
      },
    };
    const failing = rewardModel<Task>({ url, model: 'rm', clock });
    const given = {
      task: {},
      trajectory: { messages: [] } as never,
      solution: '',
      signal: new AbortController().signal,
    };
    await expect(failing.score(given)).rejects.toThrow('answered 503');
    expect(asked).toHaveLength(17);
    expect(waits.slice(0, 7)).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    const refusing = await classifier([400]);
    await expect(rewardModel<Task>({ url: refusing.url, model: 'rm', clock }).score(given)).rejects.toThrow(
      'answered 400',
    );
    expect(refusing.asked).toHaveLength(1);
  });
});

describe('K5 a reward model of a described run', () => {
  const router = 'http://127.0.0.1:8080/classify';

  test('it scores where no function does, and a function learns its address', async () => {
    const { rewards, check } = await open({ model: { url: router, name: 'rm' } });
    check(row({ dataSource: 'whatever' }));
    expect(rewards.map(({ name }) => name)).toEqual(['score']);
    const computed = await open(
      { model: { url: router, name: 'rm' } },
      `export const compute_score = (source, solution, truth, extra, { reward_router_address, reward_model_name }) =>
        reward_router_address === '127.0.0.1:8080' && reward_model_name === 'rm' ? 1 : 0;`,
    );
    const [group] = await play<TaskRow>(usesTool, computed.rewards, { tasks: [{ index: 0, task: row() }] });
    expect(group!.attempts[0]!.reward).toBe(1);
  });

  test('verl starts its server; here it is named, or the key is refused', async () => {
    const enable = 'reward.reward_model.enable=True';
    const { refused } = await resolveRun({ overrides: [enable] });
    expect(refused.join()).toContain('give rewards.model.url=http://HOST:PORT/classify');
    const given = await resolveRun({
      overrides: [enable, `rewards.model.url=${router}`, 'reward.reward_model.model_path=rm'],
    });
    expect(given.refused.join()).not.toContain('reward_model');
    expect(given.options).toMatchObject({ rewards: { model: { url: router, name: 'rm' } } });
  });
});

test('K6 rewards are limited in concurrency, requests and tokens a minute', async () => {
  const clock = virtualClock();
  const { rewards } = await open(
    {
      name: 'gsm8k',
      timeoutSeconds: 300,
      limits: { concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 4000, tokensPerRequest: 2000 },
    },
    undefined,
    clock,
  );
  const groups = await play<TaskRow>(() => '#### 7', rewards, {
    tasks: [{ index: 0, task: row({ groundTruth: '7' }) }],
    attempts: 4,
    clock,
    server: scriptedEngine({ tokenizer, clock, reply: () => '#### 7' }),
  });
  expect(groups[0]!.attempts.map((attempt) => attempt.reward)).toEqual([1, 1, 1, 1]);
  expect(clock.now()).toBeGreaterThanOrEqual(60_000 - 1); // 8,000 tokens: 4,000 at once, the rest in a minute
  expect(clock.now()).toBeLessThan(61_000);
});

describe('K7 default scorers', () => {
  const cases: [string, string, unknown, number][] = [
    ['openai/gsm8k', 'so #### 1,234', '1234', 1],
    ['openai/gsm8k', 'so it is 1234', '1234', 0],
    ['lighteval/MATH', 'thus \\boxed{\\frac{1}{2}}', '0.5', 1],
    ['DigitalLearningGmbH/MATH-lighteval', 'thus 0.5', '0.5', 0],
    ['HuggingFaceH4/MATH-500', '\\boxed{2}', '2', 1],
    ['math_dapo', 'Answer: 34', '34', 1],
    ['aime2025', 'Answer: 33', '34', -1],
    ['numina_olympiads', 'The answer is 12', '12', 1],
    ['numina_cn_k12', 'so $x=\\pm 2$', '\\{-2, 2\\}', 1],
    ['amc23', 'thus $\\boxed{(x-1)(x+1)}$', 'x^2-1', 1],
    ['MATH-lighteval', '\\boxed{(1, 2)}', '(2, 1)', 0],
    ['cais/mmlu', 'It is not A. **Answer: (C)**', 'C', 1],
    ['cais/mmlu', 'The answer is B.', 'C', 0],
    ['hiyouga/geometry3k', '<think>a</think> \\boxed{5}', '5', 1],
    ['hiyouga/geometry3k', '\\boxed{5}', '5', 0.9],
    ['searchR1_nq', 'well <answer>The Eiffel Tower</answer>', { target: ['Louvre', 'eiffel tower'] }, 1],
    ['searchR1_hotpotqa', 'eiffel tower', { target: ['eiffel tower'] }, 0],
  ];
  test.each(cases)('%s: %j', async (dataSource, text, groundTruth, expected) => {
    const { rewards, check } = await open({});
    const task = row({ dataSource, groundTruth });
    check(task);
    const [group] = await play<TaskRow>(() => text, rewards, { tasks: [{ index: 0, task }] });
    expect(group!.attempts[0]!.reward).toBeCloseTo(expected);
  });

  test('a row may name its reward itself, before its data source', async () => {
    const { rewards, check } = await open({});
    const rows = [
      { reward: 'maths', dataSource: 'openai/gsm8k', groundTruth: 'x^2+2x+1', text: 'It is $(x+1)^2$.' },
      { reward: 'multiple_choice', groundTruth: 'B', text: 'The answer is (B).' },
      { reward: 'exact_match', groundTruth: 'Paris', text: 'paris' },
    ];
    for (const { text, ...given } of rows) {
      const task = row(given);
      check(task);
      const [group] = await play<TaskRow>(() => text, rewards, { tasks: [{ index: 0, task }] });
      expect(group!.attempts[0]!.reward).toBe(1);
    }
    expect(() => check(row({ reward: 'math', groundTruth: '7' }))).toThrow("no ready reward 'math'");
  });

  test('an unknown source, none, and an unknown name are errors before the start', async () => {
    const { check } = await open({});
    check(row({ dataSource: 'openai/gsm8k', groundTruth: '7' }));
    expect(() => check(row({ dataSource: 'openai/gsm8', groundTruth: '7' }))).toThrow(
      "'openai/gsm8'; did you mean openai/gsm8k?",
    );
    expect(() => check(row({ groundTruth: '7' }))).toThrow('the row has no data_source');
    expect(() => check(row({ dataSource: 'openai/gsm8k' }))).toThrow(
      'the row of openai/gsm8k has no reward_model.ground_truth',
    );
    await expect(open({ name: 'exact_mach' })).rejects.toThrow(
      "no ready reward 'exact_mach'; did you mean exact_match?",
    );
  });

  test('code is run on a sandbox server where one is named, and what it does not answer fails the attempt', async () => {
    const asked: { code: string; stdin: string; language: string; memory_limit_MB: number }[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      asked.push(JSON.parse(Buffer.concat(chunks).toString()));
      const { stdin } = asked.at(-1)!;
      if (stdin === 'refuse') return response.writeHead(400).end();
      const answers: Record<string, object> = {
        slow: { status: 'TimeLimitExceeded', stdout: '8' },
        broken: { status: 'Finished', return_code: 1, stdout: '8', stderr: 'Traceback' },
      };
      const ran = answers[stdin] ?? { status: 'Finished', return_code: 0, stdout: `${2 * Number(stdin)}\n` };
      return response.end(JSON.stringify({ status: 'Success', run_result: ran }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/run_code`;
    const { options } = await resolveRun({
      overrides: [`reward.sandbox_fusion.url=${url}`, 'reward.sandbox_fusion.memory_limit_mb=512'],
    });
    const { rewards, check, prepare } = await open({
      sandbox: (options as unknown as { rewards: RewardsDescription }).rewards.sandbox,
    });
    const score = async (inputs: readonly string[]) => {
      const task = row({
        dataSource: 'codecontests',
        groundTruth: { inputs, outputs: inputs.map(() => '8') },
      });
      check(task);
      await prepare();
      const [group] = await play<TaskRow>(() => 'So:\n```python\nprint(2 * int(input()))\n```', rewards, {
        tasks: [{ index: 0, task }],
        failures: { retries: 0, tolerateShare: 1 },
      });
      return group!.attempts[0]!;
    };
    expect((await score(['4', '5', 'slow', 'broken'])).reward).toBe(0.25);
    expect(asked[0]).toMatchObject({ stdin: '4', language: 'python', memory_limit_MB: 512 });
    expect(asked[0]!.code.trim()).toBe('print(2 * int(input()))');
    expect((await score(['refuse'])).trajectory.end).toMatchObject({
      kind: 'failed',
      boundary: 'reward',
      message: expect.stringContaining('answered 400'),
    });
  });

  test('a reward by name scores every source', async () => {
    const { rewards, check } = await open({ name: 'f1' });
    const task = row({ dataSource: 'whatever', groundTruth: 'a cat' });
    check(task);
    const [group] = await play<TaskRow>(() => 'the cat sat', rewards, { tasks: [{ index: 0, task }] });
    expect(group!.attempts[0]!.reward).toBeCloseTo(2 / 3);
  });
});

describe('K8 reward shaping for tool use', () => {
  test("verl's example is a compute_score of four lines", async () => {
    const { rewards } = await open(
      {},
      `export function compute_score(source, solution, truth) {
        const base = solution.includes('#### ' + truth) ? 1 : /#### \\d/.test(solution) ? 0.1 : 0;
        return base + (solution.includes('<tool_call>') ? 0.1 : 0);
      }`,
    );
    const [group] = await play<TaskRow>(usesTool, rewards, {
      tasks: [{ index: 0, task: row({ groundTruth: '7' }) }],
    });
    expect(group!.attempts[0]!.reward).toBeCloseTo(1.1);
  });

  test('reward_shaping keys shape a described run, part by part in the log, and enable: False turns them off', async () => {
    for (const enabled of [true, false]) {
      const { rewards } = await open({
        name: 'gsm8k',
        shaping: { ...DESCRIBED.shaping, enabled, toolFormat: 0.05 },
      });
      const reply: ScriptedEngineOptions['reply'] = ({ turn }) =>
        turn < 2 ? `Let me add. ${call('add', { a: 3, b: 4 })}` : '#### 7';
      const [group] = await play<TaskRow>(reply, rewards, {
        tasks: [{ index: 0, task: row({ groundTruth: '7' }) }],
      });
      const { reward: total, rewards: parts } = group!.attempts[0]!;
      // 1 + success 0.1 + reasoning 0.05 + format 0.05 − one repetition 0.05
      expect(total).toBeCloseTo(enabled ? 1.15 : 1);
      expect(parts['shaping/redundantToolCall']).toBe(enabled ? -0.05 : undefined);
    }
  });
});

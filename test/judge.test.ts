/** LLM judges against a stand-in service that is slow, wrong, over its limit or down. */
import { appendFile, mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Reward, reward, rollout, toolLoop } from 'rollcall';
import { judgeReward, rankingReward } from 'rollcall/rewards';
import { chatService } from 'rollcall/services';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { resolveRun } from '../src/options/resolve-run.ts';
import { openDescribedRewards, type RewardsDescription } from '../src/reward/described-rewards.ts';

const { tokenizer, format } = byteModel();

type Reply =
  | string
  | { readonly status?: number; readonly text?: string; readonly raw?: string; readonly afterMs?: number };

/** Answers a chat request by its last message; counts what it was asked. */
async function standIn(answer: (prompt: string, request: number) => Reply) {
  const prompts: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as { messages: { content: string }[] };
    const prompt = body.messages.at(-1)!.content;
    prompts.push(prompt);
    const reply = answer(prompt, prompts.length);
    const { status = 200, text = '', raw, afterMs = 0 } = typeof reply === 'string' ? { text: reply } : reply;
    const usage = { prompt_tokens: 100, completion_tokens: 10 };
    const made =
      raw ?? JSON.stringify({ choices: [{ message: { role: 'assistant', content: text } }], usage });
    setTimeout(() => response.writeHead(status, { 'content-type': 'application/json' }).end(made), afterMs);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, prompts };
}

/** Time that passes at once, so that pauses between tries cost nothing here. */
const hasty = {
  now: () => performance.now(),
  timer: (milliseconds: number, fire: () => void) => {
    const handle = setTimeout(fire, milliseconds >= 60_000 ? milliseconds : 1);
    return () => clearTimeout(handle);
  },
};

const attempt = (rewards: readonly Reward[], texts: readonly string[], more = {}) =>
  rollout({
    tasks: [{ index: 0, task: { question: 'Name a colour.' } }],
    attempts: texts.length,
    step: 1,
    agent: toolLoop({ prompt: 'Name a colour.' }),
    server: scriptedEngine({
      tokenizer,
      reply: ({ request }) => texts[Number(/attempt-(\d+)/.exec(request.id)![1])]!,
    }),
    format,
    rewards,
    seed: 1,
    failures: { retries: 1, tolerateShare: 1 },
    ...more,
  });

test('a pointwise judge marks each answer, and the same answer once', async () => {
  const { url, prompts } = await standIn((prompt) =>
    prompt.includes('blue') ? 'Fine.\nScore: 8' : 'Score: 2.5',
  );
  const judge = judgeReward({ service: chatService({ url, model: 'judge' }), rubric: 'A colour.' });
  const [first] = await attempt([judge], ['blue', 'dog']);
  const [second] = await attempt([judge], ['blue', 'dog']);
  expect(first!.attempts.map(({ reward: value }) => value)).toEqual([0.8, 0.25]);
  expect(second!.attempts.map(({ reward: value }) => value)).toEqual([0.8, 0.25]);
  expect(prompts).toHaveLength(2);
  expect(prompts[0]).toContain('Name a colour.');
});

test('ranking asks every pair in both orders, so a judge that prefers a place says nothing', async () => {
  const { url, prompts } = await standIn(() => 'Better: A');
  const biased = rankingReward({ service: chatService({ url, model: 'judge' }), rubric: 'Best colour.' });
  const [group] = await attempt([biased], ['red', 'green', 'blue']);
  expect(group!.attempts.map(({ reward: value }) => value)).toEqual([0.5, 0.5, 0.5]);
  expect(prompts).toHaveLength(6);
});

test('ranking by a judge that knows orders the group, equal answers tie, and nothing is asked twice', async () => {
  const worth = (text: string) => ['red', 'green', 'blue'].findIndex((word) => text.includes(word));
  const { url, prompts } = await standIn((prompt) => {
    const [, a, b] = /Answer A:\n=+\n(.*)\n=+\n\nAnswer B:\n=+\n(.*)\n=+/.exec(prompt)!;
    return worth(a!) > worth(b!) ? 'Better: A' : 'Better: B';
  });
  const judge = rankingReward({ service: chatService({ url, model: 'judge' }), rubric: 'Best colour.' });
  const [group] = await attempt([judge], ['red', 'green', 'blue', 'blue']);
  // blue beats red and green and ties with blue: 2.5 of 3.
  expect(group!.attempts.map(({ reward: value }) => value)).toEqual([0, 1 / 3, 2.5 / 3, 2.5 / 3]);
  const asked = prompts.length;
  expect(asked).toBeLessThanOrEqual(10);
  await attempt([judge], ['red', 'green', 'blue', 'blue']);
  expect(prompts).toHaveLength(asked);
});

test.each<[string, (request: number) => Reply, RegExp]>([
  ['down', () => ({ status: 503 }), /503/],
  ['wrong: no JSON', () => ({ raw: '<html>' }), /failed 3 times/],
  ['wrong: no choices', () => ({ raw: '{}' }), /without choices/],
  ['wrong: no score', () => 'I like it.', /no score from 0 to 10/],
  ['wrong: a score of 11', () => 'Score: 11', /no score from 0 to 10/],
  ['over its limit', () => ({ status: 429, text: 'slow down' }), /429/],
  ['slow', () => ({ text: 'Score: 1', afterMs: 2000 }), /failed 3 times|timeout|aborted/i],
  ['refusing', () => ({ status: 401 }), /401/],
])(
  'a judge that is %s: the attempt fails after bounded tries, and the run goes on',
  async (_, answer, message) => {
    const { url, prompts } = await standIn((_prompt, request) => answer(request));
    const service = chatService({ url, model: 'judge', retries: 2, timeoutMs: 600, clock: hasty });
    const [group] = await attempt([judgeReward({ service, rubric: 'A colour.' })], ['blue']);
    expect(group!.attempts[0]!.trajectory.end).toMatchObject({
      kind: 'failed',
      boundary: 'reward',
      message: expect.stringMatching(message),
    });
    expect(prompts.length).toBeLessThanOrEqual(6); // two tries of the reward, three of the service
  },
);

test('a judge that recovers in time costs nothing but time', async () => {
  const { url } = await standIn((_prompt, request) => (request < 3 ? { status: 500 } : 'Score: 10'));
  const service = chatService({ url, model: 'judge', clock: hasty });
  const [group] = await attempt([judgeReward({ service, rubric: 'A colour.' })], ['blue']);
  expect(group!.attempts[0]!.reward).toBe(1);
});

test('when more than the tolerated share fails by the judge, the run stops and names it', async () => {
  const { url } = await standIn(() => ({ status: 401 }));
  const judge = judgeReward({ service: chatService({ url, model: 'judge' }), rubric: 'A colour.' });
  const failing = attempt([judge, reward('one', () => 1)], ['a', 'b'], { failures: { tolerateShare: 0.5 } });
  await expect(failing).rejects.toThrow(/2 of 2 attempts failed \(reward\)[\s\S]*401/);
});

test('the cost limit is never exceeded, however many ask at once', async () => {
  const { url, prompts } = await standIn(() => 'Score: 5');
  // 100 input and 10 output tokens at these prices cost 0.11; a request is sent only if its worst case still fits.
  const service = chatService({
    url,
    model: 'judge',
    maxTokens: 20,
    cost: { inputPrice: 1000, outputPrice: 1000, limit: 2 },
    clock: hasty,
  });
  const texts = Array.from({ length: 40 }, (_, index) => `colour ${index}`);
  const [group] = await attempt([judgeReward({ service, rubric: 'A colour.' })], texts);
  const ends = group!.attempts.map(({ trajectory }) => trajectory.end);
  expect(service.spent).toBeLessThanOrEqual(2);
  expect(service.spent).toBeCloseTo(0.11 * prompts.length);
  expect(ends.filter(({ kind }) => kind === 'completed')).toHaveLength(prompts.length);
  expect(prompts.length).toBeGreaterThan(0);
  expect(ends.find(({ kind }) => kind === 'failed')).toMatchObject({
    message: expect.stringContaining('cost limit'),
  });
});

test('a budget with a ledger outlives the process; a request that was under way when it died counts in full', async () => {
  const { url, prompts } = await standIn(() => 'Score: 5');
  const ledger = join(await mkdtemp(join(tmpdir(), 'rollcall-ledger-')), 'cost.txt');
  const open = (at = url) =>
    chatService({
      url: at,
      model: 'judge',
      maxTokens: 20,
      cost: { inputPrice: 1000, outputPrice: 1000, limit: 2, ledger },
      clock: hasty,
    });
  const texts = (start: number) => Array.from({ length: 8 }, (_, index) => `colour ${start + index}`);
  for (let start = 0; start < 40; start += 8) {
    const service = open();
    await attempt([judgeReward({ service, rubric: 'A colour.' })], texts(start), { concurrency: 1 });
  }
  expect(open().spent).toBeCloseTo(0.11 * prompts.length);
  expect(open().spent).toBeLessThanOrEqual(2);
  expect(prompts.length).toBeGreaterThan(8);
  const slow = await standIn(() => ({ text: 'Score: 5', afterMs: 3000 }));
  await writeFile(ledger, '');
  const under = open(slow.url).complete([{ role: 'user', content: 'x'.repeat(100) }]);
  await expect.poll(() => slow.prompts.length, { timeout: 20_000 }).toBe(1);
  // 100 bytes, 32 for the template and 20 of answer, at a thousandth each.
  expect(open().spent).toBeCloseTo(0.152);
  await under;
  expect(open().spent).toBeCloseTo(0.11);
  await appendFile(ledger, '0.5\n0.'); // the last line was torn
  expect(open().spent).toBeCloseTo(0.61);
  await writeFile(ledger, 'much\n');
  expect(() => open()).toThrow(/line 1 is "much"; a cost is a number/);
});

describe('a judge of a run as data', () => {
  async function opened(...overrides: string[]) {
    const { options } = await resolveRun({ overrides });
    const { rewards } = options as unknown as { rewards: RewardsDescription };
    return openDescribedRewards(rewards, { directory: tmpdir(), clock: hasty });
  }
  const tasks = [{ index: 0, task: { prompt: [], toolsKwargs: {}, extraInfo: {}, groundTruth: 'blue' } }];

  test.each([
    ['judge', 'Score: 7', [0.7, 0.7]],
    ['ranking', 'Better: A', [0.5, 0.5]],
  ] as const)('rewards.name=%s asks the service of rewards.config', async (name, answer, scores) => {
    const { url, prompts } = await standIn(() => answer);
    const config = JSON.stringify({ url, model: 'judge', rubric: 'A colour.', max_concurrent: 2 });
    const { rewards, correct } = await opened(`rewards.name=${name}`, `rewards.config=${config}`);
    const [group] = await attempt(rewards as readonly Reward[], ['red', 'green'], { tasks });
    expect(group!.attempts.map(({ reward: value }) => value)).toEqual(scores);
    expect(group!.attempts[0]!.rewards).toHaveProperty('score');
    expect(prompts[0]).toMatch(/A colour\.[\s\S]*A right answer:\n=+\nblue/);
    expect(correct?.name).toBe(name === 'judge' ? 'score' : undefined);
  });

  test('rewards.limits hold for it too', async () => {
    const { url, prompts } = await standIn(() => 'Score: 7');
    const config = JSON.stringify({ url, model: 'judge', rubric: 'A colour.' });
    const { rewards } = await opened(
      'rewards.name=judge',
      `rewards.config=${config}`,
      'rewards.limits.requestsPerMinute=1',
    );
    const stop = new AbortController();
    const asked = attempt(rewards as readonly Reward[], ['red', 'green'], { tasks, signal: stop.signal });
    await expect.poll(() => prompts.length, { timeout: 20_000 }).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 200));
    stop.abort('enough');
    await asked;
    expect(prompts).toHaveLength(1);
  });

  test.each([
    ['{}', 'needs rewards.config.rubric'],
    ['{"rubric": "x"}', 'the judge (rewards.config) needs config.url'],
    [
      '{"rubric": "x", "url": "http://a/v1", "model": "m", "cost_limit": "five"}',
      'config.cost_limit is "five"',
    ],
    ['{"rubric": "x", "url": "http://a/v1", "model": "m", "api_key_env": "NO_SUCH"}', 'NO_SUCH is not set'],
  ])('rewards.config=%s is refused before the start', async (config, message) => {
    await expect(opened('rewards.name=judge', `rewards.config=${config}`)).rejects.toThrow(message);
  });
});

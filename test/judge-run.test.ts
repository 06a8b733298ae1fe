/** Whole runs whose judge is slow, wrong, over its limit or down: what fails is data until it is too much. */
import { createHash } from 'node:crypto';
import { mkdtemp, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { arrayDataset, embedded, type Scored, type TrainOptions, train } from 'rollcall';
import { singleTurn } from 'rollcall/agents';
import { judgeReward } from 'rollcall/rewards';
import { type ChatServiceOptions, chatService } from 'rollcall/services';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

type Question = { question: string };
type Fault = 'slow' | 'wrong' | 'over its limit' | 'down';

const SEEN_AS: Readonly<Record<Fault, RegExp>> = {
  slow: /failed 2 times, last: .*timeout/i,
  wrong: /no score from 0 to 10/,
  'over its limit': /failed 2 times, last: .* answered 429/,
  down: /failed 2 times, last: .* answered 503/,
};

const hashOf = (text: string) => createHash('sha256').update(text).digest().readUInt32LE();

/** Marks by a hash of what it reads; `faultOf` says which questions it fails, always in the same way. */
async function startJudge(faultOf: (prompt: string) => Fault | undefined) {
  const asked = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as { messages: { content: string }[] };
    const prompt = body.messages.at(-1)!.content;
    asked.set(prompt, (asked.get(prompt) ?? 0) + 1);
    const fault = faultOf(prompt);
    const content = fault === 'wrong' ? 'I like it.' : `Score: ${hashOf(prompt) % 11}`;
    const usage = { prompt_tokens: 100, completion_tokens: 10 };
    const answer = () =>
      response
        .writeHead(fault === 'down' ? 503 : fault === 'over its limit' ? 429 : 200)
        .end(JSON.stringify({ choices: [{ message: { content } }], usage }));
    setTimeout(answer, fault === 'slow' ? 10_000 : 0);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked };
}

/** Pauses between tries cost nothing here. */
const hasty = {
  now: () => performance.now(),
  timer: (milliseconds: number, fire: () => void) => {
    const handle = setTimeout(fire, milliseconds >= 60_000 ? milliseconds : 1);
    return () => clearTimeout(handle);
  },
};

let model: string;
beforeAll(async () => {
  model = await tinyModel();
});

async function runWith(url: string, endpointOptions: Partial<ChatServiceOptions> = {}) {
  const service = chatService({
    url,
    model: 'judge',
    retries: 1,
    timeoutMs: 1000,
    clock: hasty,
    ...endpointOptions,
  });
  const options: TrainOptions<Question> = {
    model,
    runDir: join(await mkdtemp(join(tmpdir(), 'rollcall-judged-')), 'run'),
    tasks: arrayDataset(['a', 'b', 'c', 'd'].map((question) => ({ question }))),
    agent: singleTurn<Question>({ prompt: ({ question }) => question }),
    rewards: [judgeReward<Question>({ service, rubric: 'Anything.' })],
    ...embedded({ threads: 1 }),
    steps: 3,
    tasksPerStep: 4,
    attemptsPerTask: 4,
    limits: { tokensPerReply: 12 },
    failures: { retries: 1 },
    checkpoints: { every: 1 },
  };
  return { service, options };
}

async function runToEnd(options: TrainOptions<Question>) {
  const steps: { metrics: Readonly<Record<string, number>>; attempts: Scored<Question>[] }[] = [];
  for await (const { step, metrics, groups } of train(options)) {
    if (step === 0) continue;
    steps.push({ metrics, attempts: groups.flatMap((group) => group.attempts) });
  }
  return steps;
}

test('a judge that fails some answers fails those attempts after bounded tries; they are not trained, the run goes on', async () => {
  const faults: readonly Fault[] = ['slow', 'wrong', 'over its limit', 'down'];
  const faultOf = (prompt: string) => faults[hashOf(prompt) % 12];
  const { url, asked } = await startJudge(faultOf);
  const { options } = await runWith(url);
  const steps = await runToEnd({ ...options, steps: 2, failures: { retries: 1, tolerateShare: 1 } });
  expect(steps).toHaveLength(2);

  const attempts = steps.flatMap((step) => step.attempts);
  const ends = attempts.map(({ trajectory }) => trajectory.end);
  const messages = ends.flatMap((end) => (end.kind === 'failed' ? [`${end.boundary}: ${end.message}`] : []));
  for (const fault of faults) expect(messages).toContainEqual(expect.stringMatching(SEEN_AS[fault]));
  const failing = [...asked].filter(([prompt]) => faultOf(prompt) !== undefined);
  expect(messages.every((message) => message.startsWith('reward: '))).toBe(true);
  // On a busy machine a sound answer may come too late as well.
  expect(messages.length).toBeGreaterThanOrEqual(failing.length);
  // Two tries of the reward; at most two of the service in each.
  for (const [, times] of failing) expect(times).toBeGreaterThanOrEqual(2);
  for (const [, times] of asked) expect(times).toBeLessThanOrEqual(4);

  for (const { metrics, attempts: all } of steps) {
    const scored = all.filter(({ reward }) => reward !== undefined);
    expect(metrics['ends/failed-reward'] ?? 0).toBe(all.length - scored.length);
    expect(metrics['critic/score/mean']).toBeCloseTo(
      scored.reduce((sum, { reward }) => sum + reward!, 0) / scored.length,
    );
    expect(
      all.every(({ reward, trajectory: { end } }) => (end.kind === 'failed') === (reward === undefined)),
    ).toBe(true);
  }
}, 90_000);

test('a judge that goes down stops the run, which names it; when it is back, the run goes on from its checkpoint', async () => {
  let down = false;
  const { url } = await startJudge(() => (down ? 'down' : undefined));
  const { options } = await runWith(url);
  let steps = 0;
  const stopped = (async () => {
    for await (const { step } of train(options)) {
      steps = step;
      down = step === 1;
    }
  })();
  await expect(stopped).rejects.toThrow(/attempts failed \(reward\)[\s\S]*judge[\s\S]*answered 503/);
  expect(steps).toBe(1);
  down = false;
  const rest = await runToEnd({ ...options, resume: true });
  expect(rest.map(({ attempts }) => attempts.every(({ reward }) => reward !== undefined))).toEqual([
    true,
    true,
  ]);
  const lines = (await readFile(join(options.runDir, 'metrics.jsonl'), 'utf8')).trim().split('\n');
  expect(lines.map((line) => JSON.parse(line).step)).toEqual([0, 1, 2, 3]);
}, 90_000);

test('a run spends no more than its judge may cost, and stops in words when that is reached', async () => {
  const { url, asked } = await startJudge(() => undefined);
  // 0.11 a request by its bill; what three steps ask for does not fit.
  const cost = { inputPrice: 1000, outputPrice: 1000, limit: 2.5 };
  const { service, options } = await runWith(url, { cost, maxTokens: 20 });
  await expect(runToEnd(options)).rejects.toThrow(
    /attempts failed \(reward\)[\s\S]*the cost limit is reached/,
  );
  expect(service.spent).toBeLessThanOrEqual(2.5);
  // What was under way when the run stopped may be on the bill: it counts as the most it could cost.
  expect(service.spent).toBeGreaterThanOrEqual(0.11 * asked.size - 1e-9);
  expect(asked.size).toBeGreaterThan(0);
}, 90_000);

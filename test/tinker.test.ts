import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type StepReport, type TrainOptions, train } from 'rollcall';
import { grpo, ppo } from 'rollcall/algorithms';
import type { Trainer } from 'rollcall/ports';
import { byteModel, inferenceServerContract, tabularTrainer, trainerContract } from 'rollcall/testing';
import { type TinkerOptions, tinker } from 'rollcall/tinker';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startTinker, type TinkerStandIn } from './stand-ins/tinker.mjs';
import { tinyModel } from './tiny-model.ts';

const running: TinkerStandIn[] = [];
async function start(options: Parameters<typeof startTinker>[0] = {}): Promise<TinkerStandIn> {
  const server = await startTinker(options);
  running.push(server);
  return server;
}
afterAll(() => Promise.all(running.map((server) => server.kill())));

const model = await tinyModel();
const quiet = () => {};
const rent = (url: string, more: Partial<TinkerOptions> = {}) =>
  tinker({ url, model: 'tiny', lora: { rank: 4 }, server: 'skyrl-jax', log: quiet, ...more });

const [averaging, summing] = [await start(), await start({ reduction: 'token-sum' })];
/** The ways in which a gradient travels. */
const WAYS = {
  'as advantages of importance sampling, where a server averages': rent(averaging.url),
  'as advantages of PPO, where a server averages': rent(averaging.url, { loss: 'ppo' }),
  'as weights of a cross-entropy, where a server sums': rent(summing.url, { server: 'skyrl-torch' }),
  'as weights in protobuf, as the hosted service wants them': rent(summing.url, { server: 'hosted' }),
} as const;

describe.each(Object.entries(WAYS))('gradients %s', (_, rented) => {
  test('make the step that they make in this process, of sequences of different lengths and several passes', async () => {
    const near = tabularTrainer({
      vocabulary: 8,
      logits: Array.from({ length: 64 }, (__, at) => ((at * 7919) % 13) / 8),
    });
    const far = await rented.open('policy', model);
    const row = (ids: number[], from: number) => ({
      ids: Int32Array.from(ids),
      targets: Uint8Array.from(ids, (__, at) => (at >= from ? 1 : 0)),
    });
    const passes = [[row([1, 2, 3, 4, 5, 6, 7, 1], 2), row([2, 3], 1)], [row([5, 1, 1, 4, 3], 3)]];
    // An epsilon of 1 makes Adam's steps nearly as long as the gradient, so that a wrong factor is seen.
    const adam = { learningRate: 0.5, beta1: 0.9, beta2: 0.99, epsilon: 1, weightDecay: 0.01, clipNorm: 0 };
    const trained = async (trainer: Trainer) => {
      const norms: number[] = [];
      for (let step = 1; step <= 3; step++) {
        for (const rows of passes) {
          const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
          const slope = (logprob: number, at: number) => Math.sin(step + at) * Math.exp(logprob);
          await pass.backward({ logprob: pass.outputs.logprob!.map((values) => values.map(slope)) });
        }
        norms.push((await trainer.optimStep(adam)).gradNorm);
      }
      const { logprob } = await trainer.score(passes.flat(), { temperature: 1, outputs: ['logprob'] });
      return [...norms, ...logprob!.flatMap((values) => [...values])];
    };
    const [expected, found] = [await trained(near), await trained(far)];
    for (const [at, value] of found.entries()) expect(value).toBeCloseTo(expected[at]!, 5);
    await far.close();
  });
});

const trainers = {
  'averaging server': await trainerContract(() => rent(averaging.url).open('policy', model), {
    vocabulary: 8,
  }),
  'summing server': await trainerContract(
    () => rent(summing.url, { server: 'skyrl-torch' }).open('policy', model),
    { vocabulary: 8 },
  ),
};
const publisher = await rent(averaging.url).open('policy', model);
const servers = await inferenceServerContract(
  async () => (await rent(averaging.url).servers.open(model))[0]!,
  { update: (version) => publisher.publish(version) },
);
describe.each(Object.entries(trainers))('the trainer of an %s', (_, cases) => {
  for (const { name, run } of cases) test(name, run);
});
describe('the Tinker server', () => {
  for (const { name, run } of servers) test(name, run);
});

/** The names and types within a value; of a list, those of its first item. */
function shape(value: unknown): unknown {
  if (Array.isArray(value)) return value.length > 0 ? [shape(value[0])] : [];
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shape(one)]));
}

test('the stand-in answers as a real server was recorded to', async () => {
  const recorded = JSON.parse(
    await readFile(new URL('./data/tinker-skyrl-0.3.0.json', import.meta.url), 'utf8'),
  ) as { pairs: { call: string; body: Record<string, unknown>; status: number; answer: unknown }[] };
  const { url } = await start({ vocabulary: 264 });
  /** Ids that the stand-in gives instead of the recorded ones. */
  const ids = new Map<string, string>();
  for (const { call, body, status, answer } of recorded.pairs) {
    let text = JSON.stringify(body);
    for (const [old, now] of ids) text = text.replaceAll(old, now);
    const reply = await fetch(url + call.slice(5), { method: 'POST', body: text });
    const said = (await reply.json()) as Record<string, unknown>;
    expect([call, reply.status]).toEqual([call, status]);
    const isNamed = status < 400 || status === 404;
    if (isNamed) expect([call, shape(said)]).toEqual([call, shape(answer)]);
    for (const key of ['session_id', 'model_id', 'request_id', 'sampling_session_id', 'path']) {
      const old = (answer as Record<string, unknown>)[key];
      if (typeof old !== 'string') continue;
      const quoted = key === 'request_id';
      ids.set(
        quoted ? `"request_id":"${old}"` : old,
        quoted ? `"request_id":"${said[key]}"` : String(said[key]),
      );
    }
  }
});

type Letter = { letter: string };
let options: TrainOptions<Letter>;
beforeAll(async () => {
  process.env['MODEL'] = model;
  process.env['RUN'] = 'given below';
  ({ options } = (await import('./runs/letters.ts')) as { options: TrainOptions<Letter> });
});

const VOCABULARY = byteModel().tokenizer.vocabularySize;

/** Rewards and gradient norms of a short run; `at` is called after each step. */
async function run(url: string, at: (step: number) => Promise<void> = async () => {}, more: object = {}) {
  const rented = rent(url, { prices: { prompt: 1, sampled: 2, trained: 3 } });
  const told: number[][] = [];
  let last: StepReport<Letter> | undefined;
  const given = {
    ...options,
    trainer: rented,
    servers: rented.servers,
    algorithm: grpo(),
    steps: 4,
    tasksPerStep: 2,
    limits: { tokensPerReply: 6 },
    optimizer: { learningRate: 0.5, clipNorm: 0, miniBatches: 2 },
    runDir: await mkdtemp(join(tmpdir(), 'rollcall-tinker-')),
    ...more,
  };
  for await (const report of train(given)) {
    last = report;
    if (report.step > 0) {
      const rewards = report.groups.flatMap(({ attempts }) => attempts.map(({ reward }) => reward!));
      told.push([...rewards, report.metrics['actor/grad_norm']!]);
    }
    await at(report.step);
  }
  return { told, metrics: last!.metrics };
}

test('a run counts tokens and cost, and goes on as if nothing had happened when its server is killed, or it is resumed', async () => {
  const { url } = await start({ vocabulary: VOCABULARY });
  const { told, metrics } = await run(url);
  const tokens = (name: string) => metrics[`service/${name}_tokens`]!;
  expect(tokens('trained')).toBeGreaterThan(0);
  expect(metrics['service/cost']).toBeCloseTo(
    (tokens('prompt') + 2 * tokens('sampled') + 3 * (tokens('forward') + tokens('trained'))) / 1e6,
    12,
  );

  const disk = new Map<string, unknown>();
  let killed: 'between steps' | 'while sampling' | 'while training' | undefined;
  let server = await start({ vocabulary: VOCABULARY, disk });
  const again = async () => {
    const { port } = server;
    await server.kill();
    server = await start({ vocabulary: VOCABULARY, disk, port, before: interrupt });
  };
  const interrupt = (call: string) => {
    const now = killed;
    if (
      (now === 'while sampling' && call === 'asample') ||
      (now === 'while training' && call === 'optim_step')
    ) {
      killed = undefined;
      void again();
    }
  };
  const disturbed = await run(server.url, async (step) => {
    if (step === 1) await again(); // its checkpoints are there, its models are not
    if (step === 2) killed = 'while sampling';
    if (step === 3) killed = 'while training';
  });
  expect(killed).toBeUndefined();
  expect(disturbed.told).toEqual(told);

  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-tinker-'));
  const first = await run(url, undefined, { runDir, steps: 2 });
  const resumed = await run(url, undefined, { runDir, resume: true });
  expect([...first.told, ...resumed.told]).toEqual(told);
});

test("a checkpoint holds the adapter in PEFT's layout, which says which layers it is for", async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-tinker-'));
  const trainer = await rent(averaging.url).open('policy', model);
  await trainer.save(directory);
  await trainer.close();
  const config = JSON.parse(await readFile(join(directory, 'adapter_config.json'), 'utf8')) as object;
  expect(config).toEqual({ peft_type: 'LORA', r: 4, target_modules: ['up_proj'] });
  const weights = await readFile(join(directory, 'adapter_model.safetensors'));
  // Three of the first table's 64 numbers, by its formula.
  const values = new Float32Array(Uint8Array.from(weights.subarray(-4 * 64)).buffer);
  expect([values[0], values[1], values[63]]).toEqual([0, 0.25, 1.125]);
});

test('a gradient whose connection breaks is not added twice', async () => {
  const norms = async (breaks: boolean) => {
    let isBroken = false;
    const { url, calls } = await start({
      before: (call, request) => {
        if (!breaks || isBroken || call !== 'forward_backward') return;
        isBroken = true;
        request.socket.destroy(); // the server adds it, and nobody hears of it
      },
    });
    const trainer = await rent(url).open('policy', model);
    const rows = [{ ids: Int32Array.of(1, 2, 3), targets: Uint8Array.of(0, 1, 1) }];
    const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
    await pass.backward({ logprob: [Float32Array.of(0, -1, -1)] });
    const adam = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
    const { gradNorm } = await trainer.optimStep(adam);
    await trainer.close();
    return { gradNorm, models: calls.filter(({ call }) => call === 'create_model').length };
  };
  const [whole, broken] = [await norms(false), await norms(true)];
  expect(broken.gradNorm).toBe(whole.gradNorm);
  expect([whole.models, broken.models]).toEqual([1, 2]);
});

test('a server that is busy, holds a question or is not done is asked again; one that fails is told with its reason', async () => {
  const answers = [
    ['create_session', 503, { detail: 'starting' }],
    ['create_model', 429, { detail: 'slow down' }],
    ['retrieve_future', 408, { detail: 'Timeout waiting for result' }],
    ['retrieve_future', 200, { type: 'try_again', queue_state: 'active' }], // verl's, Twinkle's
    ['forward', 400, { detail: 'the sequence is too long' }],
  ] as const;
  let next = 0;
  const { url } = await start({
    before: (call) => {
      const [at, status, body] = answers[next] ?? [];
      if (at !== call) return undefined;
      next++;
      return [status!, body!];
    },
  });
  const trainer = await rent(url).open('policy', model);
  const rows = [{ ids: Int32Array.of(1, 2), targets: Uint8Array.of(0, 1) }];
  const score = () => trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
  await expect(score()).rejects.toThrow('forward answered 400: the sequence is too long');
  await score();
  expect(next).toBe(answers.length);
  await trainer.close();
});

test('what the protocol cannot carry is refused by name before the first step', async () => {
  const { url } = await start({ vocabulary: VOCABULARY });
  expect(() => tinker({ url, model: 'tiny' })).toThrow(
    /it is not known how the server at http.* makes one loss of the losses of tokens.*give server \(hosted, skyrl-jax/,
  );
  const refusal = (more: object) => expect(run(url, async () => {}, more)).rejects;
  await refusal({ algorithm: ppo() }).toThrow('tinker: the protocol has no value head, so no critic');
  await refusal({ algorithm: grpo({ entropyBonus: 0.01 }) }).toThrow(
    'has an entropy bonus, but this trainer gives no entropy',
  );
  await refusal({ sampling: { temperature: 0.7 } }).toThrow('this trainer scores at 1 only');
  await refusal({ optimizer: { clipNorm: 1 } }).toThrow('does not clip gradients; set it to 0');
  await refusal({ mode: { kind: 'one-step-off' } }).toThrow('sample with the weights that are being trained');
});

test('the API key comes from the environment, and a wrong one is told as such', async () => {
  const { url } = await start({ apiKey: 'tml-right-key' });
  vi.stubEnv('TINKER_API_KEY', 'tml-wrong-key');
  await expect(rent(url).open('policy', model)).rejects.toThrow(
    'TINKER_API_KEY is not accepted (Invalid API key)',
  );
  vi.stubEnv('TINKER_API_KEY', 'tml-right-key');
  await (await rent(url).open('policy', model)).close();
  vi.unstubAllEnvs();
});

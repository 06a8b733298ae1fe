import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { errors, servers, type TrainOptions, train } from 'rollcall';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publishToDisk } from '../src/engine/disk-weights.ts';
import { openServer } from '../src/engine/server.ts';
import { openTrainer } from '../src/engine/training/trainer.ts';
import { Attestor } from '../src/gateway/attest.ts';
import { SglangServer } from '../src/inference/sglang.ts';
import { PLAIN_SAMPLING } from '../src/lib/plain-sampling.ts';
import { type StartedServer, startProcess, startStandIn } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

const rollcall = fileURLToPath(new URL('../bin/rollcall.js', import.meta.url));
const deafScript = fileURLToPath(new URL('./stand-ins/deaf.mjs', import.meta.url));
const running: StartedServer[] = [];

let options: TrainOptions<{ letter: string }>;
let sound: StartedServer;
let deaf: StartedServer;

beforeAll(async () => {
  const model = await tinyModel();
  process.env['MODEL'] = model;
  process.env['RUN'] = 'given below';
  ({ options } = await import('./runs/letters.ts'));
  const serve = [rollcall, 'serve', '--model', model, '--port', '0', '--threads', '1'];
  const [first, behind] = await Promise.all([startProcess(serve), startProcess(serve)]);
  sound = first;
  deaf = await startProcess([deafScript, behind.url]);
  running.push(first, behind, deaf);
}, 60_000);

afterAll(async () => {
  await Promise.all(running.map((server) => server.stop('SIGKILL')));
});

async function run(urls: readonly string[], steps: number) {
  const log: { step: number; line: string }[] = [];
  let step = 0;
  const far = servers({
    urls,
    engine: 'rollcall',
    log: (line) => log.push({ step, line }),
  });
  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-attest-'));
  const ends: string[] = [];
  for await (const report of train({ ...options, servers: far, runDir, steps })) {
    step = report.step;
    ends.push(
      ...report.groups.flatMap(({ attempts }) => attempts.map(({ trajectory }) => trajectory.end.kind)),
    );
  }
  return { log, ends };
}

test('a server that ignores updates is found within 5, taken out for good, and the run goes on with the other', async () => {
  const { log, ends } = await run([sound.url, deaf.url], 7);
  expect(log).toHaveLength(1);
  expect(log[0]!.line).toContain(`${deaf.url} is out: the update did not arrive`);
  expect(log[0]!.step).toBeLessThanOrEqual(4); // the sync of the step after it
  expect(ends.filter((end) => end === 'failed')).toEqual([]);
  expect(ends.length).toBe(7 * 16);
}, 120_000);

test('without a sound server the run stops and says why', async () => {
  const alone = run([deaf.url], 7);
  await expect(alone).rejects.toThrow(errors.EngineError);
  await expect(alone).rejects.toThrow(/no server is left: .*the update did not arrive/);
}, 120_000);

test('a checksum that stays while the weights move convicts at once; an adapter leaves it', async () => {
  const server = await startStandIn('sglang', { ignoreUpdates: true });
  running.push(server);
  const adapter = new SglangServer({ url: server.url });
  const prompt = Int32Array.of(5, 6, 7, 8);
  const truth = await adapter.generate({
    id: 'truth/',
    trajectory: 'truth',
    prompt,
    scorePrompt: true,
    sampling: { ...PLAIN_SAMPLING, maxTokens: 1, stopIds: [], seed: 1 },
  });
  const scores = truth.promptLogprobs!.subarray(1);
  const verdicts = async (sent: 'weights' | 'adapter') => {
    const attestor = new Attestor([prompt]);
    const look = async (by: number) => {
      const [verdict] = await attestor.check(
        [{ name: 'a', server: adapter }],
        async () => [scores.map((value) => value + by)],
        sent,
      );
      return verdict!.state;
    };
    return [await look(0.02), await look(0.0201), await look(0.0201)];
  };
  expect(await verdicts('weights')).toEqual(['unproven', 'failed', 'unproven']);
  expect(await verdicts('adapter')).toEqual(['unproven', 'unproven', 'unproven']);
  await adapter.close();
}, 30_000);

test('an adapter inside the process is proved, and a server that did not get it is convicted', async () => {
  const model = process.env['MODEL']!;
  const lora = { rank: 4, alpha: 8 };
  const trainer = await publishToDisk(await openTrainer({ model, threads: 1, lora }), {
    model,
    send: 'adapter',
  });
  const [has, lacks] = await Promise.all([0, 1].map(() => openServer({ model, threads: 1, log: () => {} })));
  const named = [
    { name: 'has', server: has! },
    { name: 'lacks', server: lacks! },
  ];
  const ids = Int32Array.of(5, 6, 7, 8, 9);
  const rows = [{ ids, targets: Uint8Array.of(0, 1, 1, 1, 1) }];
  const attestor = new Attestor([ids], trainer.arithmetic);
  const look = async () => {
    const out: Record<string, string> = {};
    const scores = async () => {
      const { logprob } = await trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
      return logprob!.map((row) => row.subarray(1));
    };
    for (const { name, state } of await attestor.check(named, scores, 'adapter')) out[name] = state;
    return out;
  };
  expect(await look()).toEqual({ has: 'unproven', lacks: 'unproven' });
  const adam = { learningRate: 0.05, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
  for (const version of [1, 2]) {
    const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
    await pass.backward({ logprob: [Float32Array.of(0, -1, -1, -1, -1)] });
    await trainer.optimStep(adam);
    await has!.update(await trainer.publish(version));
  }
  expect(await look()).toEqual({ has: 'proved', lacks: 'failed' });
  await Promise.all([has!.close(), lacks!.close(), trainer.close()]);
}, 30_000);

import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embedded } from 'rollcall';
import type { InferenceServer, Trainer, WeightUpdate } from 'rollcall/ports';
import {
  byteModel,
  type ContractCase,
  inferenceServerContract,
  scriptedEngine,
  tabularTrainer,
  trainerContract,
} from 'rollcall/testing';
import { afterAll, describe, expect, test } from 'vitest';
import type { EmbeddedOptions } from '../src/engine/embedded.ts';
import { SglangServer } from '../src/inference/sglang.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { type StartedServer, startStandIn } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

const model = await tinyModel();
const other = await tinyModel(2);
const started: StartedServer[] = [];
afterAll(async () => {
  await Promise.all(started.map((standIn) => standIn.stop()));
});

/** One that stays open for all cases: to open the embedded engine takes longer than a case. */
function kept<T extends InferenceServer | Trainer>(opened: T): T {
  afterAll(async () => {
    await opened.close();
    await opened.close(); // may be closed twice
  });
  return new Proxy(opened, {
    get: (target, name) => {
      if (name === 'close') return async () => {};
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

async function keptTrainer(options: EmbeddedOptions, valueHead: boolean) {
  const trainer = kept(
    await embedded({ threads: 1, ...options }).trainer.open('policy', model, { valueHead }),
  );
  const initial = await mkdtemp(join(tmpdir(), 'rollcall-contracts-'));
  await trainer.save(initial);
  return async () => {
    await trainer.load(initial);
    return trainer;
  };
}

const [embeddedServer] = (await embedded({ threads: 1 }).servers.open(model)).map(kept);
const onDisk =
  (path: string) =>
  (version: number): WeightUpdate => ({ kind: 'disk', version, path });

const openEmbedded = async () => embeddedServer!;
const openScripted = async () => {
  const { tokenizer } = byteModel();
  return scriptedEngine({ tokenizer, reply: () => 'Hello there.', tokenMs: 1 });
};
async function standIn(kind: 'sglang' | 'vllm') {
  const server = await startStandIn(kind, { tokenMs: 1 });
  started.push(server);
  return { url: server.url, timeoutMs: 10_000 };
}

const servers = {
  embedded: await inferenceServerContract(openEmbedded, { update: onDisk(other) }),
  scripted: await inferenceServerContract(openScripted, { update: onDisk(other) }),
  sglang: await inferenceServerContract(async () => new SglangServer(await standIn('sglang')), {
    update: onDisk('/weights/1'),
  }),
  vllm: await inferenceServerContract(async () => new VllmServer(await standIn('vllm')), {
    update: onDisk('/weights/1'),
  }),
};

const BYTES = { vocabulary: byteModel().tokenizer.vocabularySize };
const trainers = {
  embedded: await trainerContract(await keptTrainer({}, true), BYTES),
  'embedded with an adapter': await trainerContract(
    await keptTrainer({ lora: { rank: 2, alpha: 4 } }, false),
    BYTES,
  ),
  tabular: await trainerContract(async () => tabularTrainer({ vocabulary: 8 }), { vocabulary: 8 }),
};

describe.each(Object.entries(servers))('the server %s', (_, cases) => {
  for (const { name, run } of cases) test(name, run);
});

describe.each(Object.entries(trainers))('the trainer %s', (_, cases) => {
  for (const { name, run } of cases) test(name, run);
});

/** The rules that an implementation breaks. */
async function broken(cases: readonly ContractCase[]): Promise<string[]> {
  const results = await Promise.allSettled(cases.map(({ run }) => run()));
  return cases.filter((_, at) => results[at]!.status === 'rejected').map(({ name }) => name);
}

test('a server that ignores updates, and one that answers while it is paused, break their rules', async () => {
  const deaf = async (): Promise<InferenceServer> => ({ ...(await openScripted()), update: async () => {} });
  expect(await broken(await inferenceServerContract(deaf, { update: onDisk(other) }))).toEqual([
    'after an update every token is of its version',
    'weights that come by collective, which it cannot take, are refused',
    'weights that come by pushed, which it cannot take, are refused',
  ]);
  const restless = async (): Promise<InferenceServer> => ({
    ...(await openScripted()),
    pause: async () => {},
  });
  expect(await broken(await inferenceServerContract(restless))).toEqual([
    'a paused server begins no request until it is resumed',
  ]);
});

test('a trainer that averages gradients, or forgets its optimizer, breaks its rules', async () => {
  const averaging = async (): Promise<Trainer> => {
    const plain = tabularTrainer({ vocabulary: 8 });
    const summing = plain.forward;
    const forward: Trainer['forward'] = async (rows, options) => {
      const pass = await summing(rows, options);
      const mean = (values: Float32Array) => values.map((value) => value / rows.length);
      return {
        ...pass,
        backward: ({ logprob = [], value = [] }) =>
          pass.backward({ logprob: logprob.map(mean), value: value.map(mean) }),
      };
    };
    return Object.assign(plain, { forward });
  };
  expect(await broken(await trainerContract(averaging, { vocabulary: 8 }))).toEqual([
    'gradients add up over rows and calls, and a step clears them',
  ]);
  const forgetful = async (): Promise<Trainer> => {
    const plain = tabularTrainer({ vocabulary: 8 });
    const saved = new Float64Array(plain.logits);
    const keep = async () => void saved.set(plain.logits);
    const putBack = async () => void plain.logits.set(saved);
    return Object.assign(plain, { save: keep, load: putBack });
  };
  expect(await broken(await trainerContract(forgetful, { vocabulary: 8 }))).toEqual([
    'what was saved and loaded goes on as if it had never stopped',
  ]);
});

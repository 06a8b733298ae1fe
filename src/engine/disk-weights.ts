/** Weights on their way to servers of other processes: a model folder per version, which they load. */
import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { TrainerError } from '../errors.ts';
import type { WeightTensor } from '../inference/server.ts';
import type { Trainer } from '../training/trainer.ts';
import { FileSet, readJson, TOKENIZER_FILES } from './model/files.ts';

/** Where the folders of weight versions are written, and how many are kept. */
export interface DiskWeightsOptions {
  /** Folder of the model that is trained: its configuration and tokenizer go along. */
  readonly model: string;
  /** Visible to the servers under the same path; default a temporary folder of this machine. */
  readonly directory?: string | undefined;
  /** `adapter`: only the low-rank matrices, loaded under a name per version. */
  readonly send?: 'weights' | 'adapter' | undefined;
}

/** Versions whose folders stay; a server may still be reading the last one. */
const KEPT_VERSIONS = 2;

/**
 * The trainer, whose `publish` leaves a folder instead of buffers in memory. A folder holds the model's tensors (or the
 * adapter's) in the trainer's precision and nothing else that a server could take for weights.
 */
export async function publishToDisk(trainer: Trainer, options: DiskWeightsOptions): Promise<Trainer> {
  const { model, send = 'weights' } = options;
  if (trainer.publishes !== 'memory') {
    throw new TrainerError(
      `the trainer publishes by ${trainer.publishes}; publishToDisk needs one that publishes by memory`,
    );
  }
  const isOwn = options.directory === undefined;
  const directory = resolve(options.directory ?? (await mkdtemp(join(tmpdir(), 'rollcall-weights-'))));
  const written: string[] = [];
  return {
    can: trainer.can,
    publishes: send === 'adapter' ? 'lora' : 'disk',
    ...(trainer.arithmetic === undefined ? {} : { arithmetic: trainer.arithmetic }),
    get tokensPerCall() {
      return trainer.tokensPerCall ?? Number.POSITIVE_INFINITY;
    },
    score: (rows, how) => trainer.score(rows, how),
    forward: (rows, how) => trainer.forward(rows, how),
    optimStep: (adam) => trainer.optimStep(adam),
    save: (to) => trainer.save(to),
    load: (from) => trainer.load(from),
    publish: async (version) => {
      const path = join(directory, `version-${version}`);
      await rm(path, { recursive: true, force: true });
      mkdirSync(path, { recursive: true });
      if (send === 'adapter') await writeAdapter(trainer, path);
      else await writeWeights(trainer, version, path, model);
      if (!written.includes(path)) written.push(path);
      while (written.length > KEPT_VERSIONS) await rm(written.shift()!, { recursive: true, force: true });
      return send === 'adapter'
        ? { kind: 'lora', version, name: `policy@${version}`, path }
        : { kind: 'disk', version, path };
    },
    close: async () => {
      await trainer.close();
      for (const path of isOwn ? [directory] : written) await rm(path, { recursive: true, force: true });
    },
  };
}

async function writeWeights(trainer: Trainer, version: number, path: string, model: string): Promise<void> {
  const update = await trainer.publish(version);
  if (update.kind !== 'memory')
    throw new TrainerError(`the trainer published by ${update.kind}, though it says memory`);
  const files = new FileSet(path);
  const config = readJson(join(model, 'config.json')) as Record<string, unknown>;
  const isHalf = [...update.tensors.values()].every(({ data }) => data instanceof Uint16Array);
  const precision = isHalf ? 'bfloat16' : 'float32';
  const stated = { ['dtype' in config ? 'dtype' : 'torch_dtype']: precision };
  files.text('config.json', json({ ...config, ...stated }));
  files.tensors('model.safetensors', named(update.tensors));
  files.copy(model, TOKENIZER_FILES);
  files.commit();
}

async function writeAdapter(trainer: Trainer, path: string): Promise<void> {
  const adapter = await trainer.adapter?.();
  if (!adapter) throw new TrainerError('an adapter is to be sent, and the trainer trains none');
  const files = new FileSet(path);
  files.text('adapter_config.json', json(adapter.config));
  files.tensors('adapter_model.safetensors', named(adapter.tensors));
  files.commit();
}

function named(tensors: ReadonlyMap<string, WeightTensor>) {
  return [...tensors].map(([name, tensor]) => ({ name, ...tensor }));
}

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

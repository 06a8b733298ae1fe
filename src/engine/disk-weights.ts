/** Weights on their way to servers of other processes: a model folder per version, which they load. */
import { mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { TrainerError } from '../errors.ts';
import type { Trainer } from '../training/trainer.ts';
import { FileSet, readJson, TOKENIZER_FILES } from './model/files.ts';

export interface DiskWeightsOptions {
  /** Folder of the model that is trained: its configuration and tokenizer go along. */
  readonly model: string;
  /** Visible to the servers under the same path. */
  readonly directory: string;
  /** `adapter`: only the low-rank matrices, loaded under a name per version. */
  readonly send: 'weights' | 'adapter';
}

/** Versions whose folders stay; a server may still be reading the last one. */
const KEPT_VERSIONS = 2;

/** The trainer, whose `publish` leaves a folder instead of buffers in memory. */
export function publishToDisk(trainer: Trainer, options: DiskWeightsOptions): Trainer {
  const directory = resolve(options.directory);
  const written: string[] = [];
  return {
    can: trainer.can,
    score: (rows, how) => trainer.score(rows, how),
    forward: (rows, how) => trainer.forward(rows, how),
    optimStep: (adam) => trainer.optimStep(adam),
    save: (to) => trainer.save(to),
    load: (from) => trainer.load(from),
    publish: async (version) => {
      const path = join(directory, `version-${version}`);
      await rm(path, { recursive: true, force: true });
      mkdirSync(path, { recursive: true });
      if (options.send === 'adapter') await trainer.save(path);
      else await writeWeights(trainer, version, path, options.model);
      if (!written.includes(path)) written.push(path);
      while (written.length > KEPT_VERSIONS) await rm(written.shift()!, { recursive: true, force: true });
      return options.send === 'adapter'
        ? { kind: 'lora', version, name: `policy@${version}`, path }
        : { kind: 'disk', version, path };
    },
    close: async () => {
      await trainer.close();
      for (const path of written) await rm(path, { recursive: true, force: true });
    },
  };
}

async function writeWeights(trainer: Trainer, version: number, path: string, model: string): Promise<void> {
  const update = await trainer.publish(version);
  if (update.kind !== 'memory')
    throw new TrainerError(`a trainer published ${update.kind}; memory is needed`);
  const files = new FileSet(path);
  const config = readJson(join(model, 'config.json')) as Record<string, unknown>;
  const precision = 'dtype' in config ? { dtype: 'float32' } : { torch_dtype: 'float32' };
  files.text('config.json', `${JSON.stringify({ ...config, ...precision }, null, 2)}\n`);
  files.tensors(
    'model.safetensors',
    [...update.tensors].map(([name, { shape, data }]) => ({ name, shape, data })),
  );
  files.copy(model, TOKENIZER_FILES);
  files.commit();
}

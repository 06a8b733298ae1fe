/** A model with its adapter's product added: a folder that needs no adapter. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { openKernels } from '../kernels/open.ts';
import { configText } from '../model/config.ts';
import { FileSet, readJson, readModelConfig, TOKENIZER_FILES } from '../model/files.ts';
import { weightSpecs } from '../model/weights.ts';
import { readAdapter } from './lora.ts';
import { TrainingEngine } from './training-engine.ts';

/** Writes `out` from an adapter folder; the model is the one the adapter names unless given. */
export async function mergeAdapter(adapter: string, out: string, model = baseOf(adapter)): Promise<void> {
  if (existsSync(join(out, 'config.json'))) {
    throw new ConfigError(`${out} already holds a model; choose another folder`);
  }
  const config = readModelConfig(model);
  const lora = readAdapter(adapter, config).options;
  const kernels = await openKernels({ log: () => {} });
  try {
    const engine = new TrainingEngine(kernels, { model, lora });
    try {
      engine.load(adapter);
      const weights = engine.publish();
      const files = new FileSet(out);
      const original = readJson(join(model, 'config.json')) as object;
      files.text('config.json', configText({ ...original, torch_dtype: 'float32' }));
      files.tensors(
        'model.safetensors',
        weightSpecs(config).map(({ name }) => ({ name, ...weights.get(name)! })),
      );
      files.copy(model, TOKENIZER_FILES);
      files.commit();
    } finally {
      engine.close();
    }
  } finally {
    await kernels.close();
  }
}

function baseOf(adapter: string): string {
  const file = join(adapter, 'adapter_config.json');
  const base = (readJson(file) as Record<string, unknown>).base_model_name_or_path;
  if (typeof base === 'string' && existsSync(join(base, 'config.json'))) return base;
  throw new ConfigError(
    `${file}: base_model_name_or_path ${JSON.stringify(base)} is no model folder here; give it with --model`,
  );
}

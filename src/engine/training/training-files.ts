/**
 * A trainer's folder: the model in the Hugging Face layout (or its adapter in PEFT's), and below it, in `trainer/`, the
 * value head and the optimizer's state: servers load every `*.safetensors` of a folder as weights of the model. What is
 * read back continues bit by bit.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, TrainerError } from '../../errors.ts';
import type { AdapterWeights } from '../../training/trainer.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { configText, type ModelConfig } from '../model/config.ts';
import {
  FileSet,
  type NamedTensor,
  readJson,
  readTensors,
  readWeights,
  TOKENIZER_FILES,
} from '../model/files.ts';
import type { ParameterStore } from '../model/parameters.ts';
import { type WeightSpec, weightSpecs } from '../model/weights.ts';
import { type LoraOptions, linearNames, loraSpecs, peftConfigJson, peftName, readAdapter } from './lora.ts';
import type { TrainingOptions } from './training-options.ts';

export interface TrainingState {
  readonly config: ModelConfig;
  readonly kernels: Kernels;
  readonly options: TrainingOptions;
  readonly model: ParameterStore;
  /** Adapter and value head. */
  readonly extra: ParameterStore | undefined;
  /** The stores with an optimizer. */
  readonly trained: readonly ParameterStore[];
}

const VALUE_HEAD_FILE = 'trainer/value_head.safetensors';
const OPTIMIZER_FILE = 'trainer/optimizer.safetensors';

export function valueHeadSpecs({ hidden }: ModelConfig): WeightSpec[] {
  return [
    { name: 'value_head.weight', shape: [1, hidden], kind: 'linear' },
    { name: 'value_head.bias', shape: [1], kind: 'bias' },
  ];
}

export function saveTraining(directory: string, state: TrainingState, steps: number): void {
  const { config, options, model, extra } = state;
  const files = new FileSet(directory);
  if (options.lora) {
    const adapter = adapterOf(state);
    files.text('adapter_config.json', json(adapter.config));
    files.tensors(
      'adapter_model.safetensors',
      [...adapter.tensors].map(([name, tensor]) => ({ name, ...tensor })),
    );
  } else {
    const original = readJson(join(options.model, 'config.json')) as Record<string, unknown>;
    const precision = 'dtype' in original ? { dtype: 'float32' } : { torch_dtype: 'float32' };
    files.text('config.json', configText({ ...original, ...precision }));
    files.tensors(
      'model.safetensors',
      weightSpecs(config).map((spec) => tensorOf(model, spec)),
    );
  }
  if (options.valueHead) {
    files.tensors(
      VALUE_HEAD_FILE,
      valueHeadSpecs(config).map((spec) => tensorOf(extra!, spec)),
    );
  }
  if (state.trained.length > 0) {
    files.tensors(OPTIMIZER_FILE, moments(state), { format: 'pt', steps: String(steps) });
  }
  files.copy(options.model, TOKENIZER_FILES);
  files.commit();
}

/** Returns the steps taken before. A folder without optimizer state is a plain model: its moments begin at zero, and so does a value head that it has not. */
export function loadTraining(directory: string, state: TrainingState): number {
  const { config, options, model, extra } = state;
  if (options.lora) loadAdapter(directory, config, options.lora, extra!);
  else model.fill((target) => readWeights(directory, config, target));
  const path = join(directory, OPTIMIZER_FILE);
  const isPlainModel = !existsSync(path);
  readValueHead(directory, state, isPlainModel ? 'if there' : 'always');
  if (state.trained.length === 0 || isPlainModel) {
    for (const { data } of moments(state)) data.fill(0);
    return 0;
  }
  const { tensors, metadata } = readTensors(path);
  copyTensors(path, tensors, moments(state));
  const steps = Number(metadata.steps);
  if (Number.isSafeInteger(steps) && steps >= 0) return steps;
  throw new ConfigError(
    `${path}: steps is ${JSON.stringify(metadata.steps)} in its metadata; a count is needed`,
  );
}

export function readValueHead(directory: string, state: TrainingState, when: 'always' | 'if there'): void {
  const path = join(directory, VALUE_HEAD_FILE);
  if (!state.options.valueHead) return;
  const head = valueHeadSpecs(state.config).map((spec) => tensorOf(state.extra!, spec));
  if (when === 'if there' && !existsSync(path)) {
    for (const { data } of head) data.fill(0);
    return;
  }
  copyTensors(path, readTensors(path).tensors, head);
}

function loadAdapter(directory: string, config: ModelConfig, lora: LoraOptions, store: ParameterStore): void {
  const adapter = readAdapter(directory, config);
  const shape = ({ rank, alpha, targets }: LoraOptions) =>
    `rank ${rank}, alpha ${alpha}, targets ${[...(targets ?? linearNames(config))].sort().join(' ')}`;
  if (shape(adapter.options) !== shape(lora)) {
    throw new ConfigError(
      `${directory}: its adapter has ${shape(adapter.options)}; the trainer was opened with ${shape(lora)}`,
    );
  }
  for (const [name, { data }] of adapter.tensors) store.value(store.get(name)).set(data);
}

/** The adapter that is trained, in PEFT's layout; its tensors are views of the live parameters. */
export function adapterOf({ config, options, extra }: TrainingState): AdapterWeights {
  const { lora, model } = options;
  if (!lora || !extra) throw new TrainerError('the trainer was opened without lora; it has no adapter');
  const tensors = loraSpecs(config, lora).map((spec) => tensorOf(extra, spec));
  return {
    config: peftConfigJson(config, lora, model),
    tensors: new Map(tensors.map(({ name, ...tensor }) => [peftName(name), tensor])),
  };
}

function tensorOf(store: ParameterStore, { name, shape }: WeightSpec): NamedTensor {
  return { name, shape, data: store.value(store.get(name)) };
}

/** Views of both moments of everything trained. */
function moments({ kernels, trained }: TrainingState): NamedTensor[] {
  return trained.flatMap((store) =>
    [...store.all()].flatMap(({ spec, offset, elements }) =>
      (['moment1', 'moment2'] as const).map((moment) => ({
        name: `${moment}.${spec.name}`,
        shape: spec.shape,
        data: kernels.f32(store[moment] + 4 * offset, elements),
      })),
    ),
  );
}

function copyTensors(path: string, from: readonly NamedTensor[], to: readonly NamedTensor[]): void {
  const given = new Map(from.map((tensor) => [tensor.name, tensor]));
  for (const { name, shape, data } of to) {
    const tensor = given.get(name);
    if (!tensor) throw new ConfigError(`${path}: tensor ${name} is missing`);
    if (tensor.shape.join() !== shape.join()) {
      throw new ConfigError(`${path}: tensor ${name} has shape [${tensor.shape}]; [${shape}] is needed`);
    }
    data.set(tensor.data);
  }
}

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

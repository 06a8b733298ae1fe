/** Low-rank adapters in the PEFT layout: `adapter_config.json` beside `adapter_model.safetensors`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { createRandom, hashSeed } from '../../lib/random.ts';
import type { ModelConfig } from '../model/config.ts';
import { describeLayer } from '../model/decoder-layer.ts';
import { type NamedTensor, readJson, readTensors } from '../model/files.ts';
import { type WeightSpec, weightSpecs } from '../model/weights.ts';

export interface LoraOptions {
  readonly rank: number;
  /** The addition is scaled by alpha / rank. */
  readonly alpha: number;
  /** Names of linear layers (`q_proj`, `down_proj` …); default all of the decoder layers. */
  readonly targets?: readonly string[];
  /** Seed of the random first factor. */
  readonly seed?: number;
}

/** Names of the linear layers of a decoder layer: `q_proj`, `k_proj` …, of Phi-3 `qkv_proj`, `o_proj` … */
export function linearNames(config: ModelConfig): string[] {
  const { qkv, attentionOut, gateUp, down } = describeLayer(config, 0);
  return [qkv, attentionOut, gateUp, down].flatMap(({ modules }) =>
    modules.map(({ name }) => name.slice(name.lastIndexOf('.') + 1)),
  );
}

const PEFT_PREFIX = 'base_model.model.';

/** Linear layers that carry an adapter, by module name (`model.layers.0.self_attn.q_proj`). */
export function loraModules(config: ModelConfig, options: LoraOptions): Set<string> {
  const known = linearNames(config);
  const targets = options.targets ?? known;
  for (const target of targets) {
    if (!known.includes(target)) {
      throw new ConfigError(
        `lora target ${target} is unknown; a ${config.family} model has ${known.join(', ')}`,
      );
    }
  }
  if (!Number.isInteger(options.rank) || options.rank < 1) {
    throw new ConfigError(`lora rank is ${options.rank}; a positive integer is needed`);
  }
  if (!(options.alpha > 0))
    throw new ConfigError(`lora alpha is ${options.alpha}; a positive number is needed`);
  return new Set(
    weightSpecs(config)
      .filter(
        ({ kind, name }) =>
          kind === 'linear' &&
          name.startsWith('model.') &&
          targets.some((target) => name.endsWith(`.${target}.weight`)),
      )
      .map(({ name }) => name.slice(0, -'.weight'.length)),
  );
}

/** A is [rank, in], B is [out, rank]. The As of layers with one input follow one another. */
export function loraSpecs(config: ModelConfig, options: LoraOptions): WeightSpec[] {
  const modules = loraModules(config, options);
  const { rank } = options;
  const shapes = new Map(weightSpecs(config).map(({ name, shape }) => [name, shape]));
  const specs: WeightSpec[] = [];
  for (const factor of ['lora_A', 'lora_B']) {
    for (const module of modules) {
      const [out, input] = shapes.get(`${module}.weight`) as readonly [number, number];
      specs.push({
        name: `${module}.${factor}.weight`,
        shape: factor === 'lora_A' ? [rank, input] : [out, rank],
        kind: 'linear',
      });
    }
  }
  return specs;
}

/** A uniform in ±1/√in as PEFT's default, B zero: an adapter begins as no change. */
export function fillAdapter(spec: WeightSpec, data: Float32Array, seed: number): void {
  if (spec.name.endsWith('.lora_B.weight')) {
    data.fill(0);
    return;
  }
  const random = createRandom(hashSeed(seed, spec.name));
  const bound = 1 / Math.sqrt(spec.shape[1]!);
  for (let index = 0; index < data.length; index++) data[index] = bound * (2 * random.next() - 1);
}

export function peftConfigJson(
  config: ModelConfig,
  options: LoraOptions,
  baseModel: string,
): Record<string, unknown> {
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel,
    r: options.rank,
    lora_alpha: options.alpha,
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    init_lora_weights: true,
    inference_mode: true,
    target_modules: [...(options.targets ?? linearNames(config))],
  };
}

export const peftName = (name: string) => `${PEFT_PREFIX}${name}`;

/** An adapter folder: its shape, and its tensors under our names. What is not plain LoRA is refused by field. */
export function readAdapter(
  directory: string,
  config: ModelConfig,
): { options: LoraOptions; tensors: ReadonlyMap<string, NamedTensor> } {
  const file = join(directory, 'adapter_config.json');
  const json = readJson(file) as Record<string, unknown>;
  if (json.peft_type !== 'LORA') {
    throw new ConfigError(`${file}: peft_type ${JSON.stringify(json.peft_type)} is not implemented; LORA is`);
  }
  const off: Record<string, readonly unknown[]> = {
    use_dora: [false],
    use_rslora: [false],
    fan_in_fan_out: [false],
    bias: ['none'],
    modules_to_save: [],
    layers_to_transform: [],
    rank_pattern: [],
    alpha_pattern: [],
  };
  for (const [name, allowed] of Object.entries(off)) {
    const value = json[name];
    const empty = value === undefined || value === null || JSON.stringify(value) === '{}';
    if (!empty && !allowed.includes(value)) {
      throw new ConfigError(`${file}: ${name} ${JSON.stringify(value)} is not implemented`);
    }
  }
  const targets = json.target_modules;
  if (!Array.isArray(targets)) throw new ConfigError(`${file}: target_modules must be a list of layer names`);
  const options = { rank: Number(json.r), alpha: Number(json.lora_alpha), targets: targets.map(String) };
  const path = join(directory, 'adapter_model.safetensors');
  if (!existsSync(path)) throw new ConfigError(`${path}: no such file`);
  const tensors = new Map<string, NamedTensor>();
  for (const tensor of readTensors(path).tensors) {
    tensors.set(
      tensor.name.startsWith(PEFT_PREFIX) ? tensor.name.slice(PEFT_PREFIX.length) : tensor.name,
      tensor,
    );
  }
  checkAdapter(path, loraSpecs(config, options), tensors);
  return { options, tensors };
}

function checkAdapter(
  path: string,
  specs: readonly WeightSpec[],
  tensors: ReadonlyMap<string, NamedTensor>,
): void {
  for (const { name, shape } of specs) {
    const tensor = tensors.get(name);
    if (!tensor) throw new ConfigError(`${path}: tensor ${peftName(name)} is missing`);
    if (tensor.shape.join() !== shape.join()) {
      throw new ConfigError(
        `${path}: tensor ${tensor.name} has shape [${tensor.shape}]; [${shape}] is needed`,
      );
    }
  }
  const known = new Set(specs.map(({ name }) => name));
  for (const [name, tensor] of tensors) {
    if (!known.has(name))
      throw new ConfigError(`${path}: tensor ${tensor.name} belongs to no target_modules`);
  }
}

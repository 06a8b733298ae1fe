/** Where new weights come from: a model folder, or buffers shared by a trainer. */
import { EngineError } from '../../errors.ts';
import type { WeightUpdate } from '../../inference/server.ts';
import type { ModelConfig } from '../model/config.ts';
import { readModelConfig, readWeights } from '../model/files.ts';
import { isIgnoredWeight, weightSpecs } from '../model/weights.ts';
import { decodeTensor } from '../safetensors.ts';
import type { WeightSource } from './packed-weights.ts';

/** Fields that decide shapes or the computation; the rest of a config may differ between checkpoints. */
const SAME = [
  'family',
  'vocabulary',
  'hidden',
  'layers',
  'heads',
  'kvHeads',
  'headSize',
  'intermediate',
  'ropeBase',
  'queryScalar',
  'attentionCap',
  'logitCap',
  'normEpsilon',
  'tied',
] as const;

export function diskWeights(directory: string, config: ModelConfig): WeightSource {
  const other = readModelConfig(directory);
  const isSameRope = JSON.stringify(other.ropeScaling) === JSON.stringify(config.ropeScaling);
  if (!isSameRope) throw new EngineError(`${directory}: rope_scaling is not that of the running model`);
  if (JSON.stringify(other.local) !== JSON.stringify(config.local)) {
    throw new EngineError(`${directory}: its sliding windows are not those of the running model`);
  }
  const field = SAME.find((name) => other[name] !== config[name]);
  if (field) {
    throw new EngineError(
      `${directory}: ${field} is ${other[field]}; the running model has ${config[field]}`,
    );
  }
  if (JSON.stringify(other.vision) !== JSON.stringify(config.vision)) {
    throw new EngineError(`${directory}: its vision_config is another than the running model's`);
  }
  return (visit) => readWeights(directory, config, visit);
}

type Tensors = Extract<WeightUpdate, { kind: 'memory' }>['tensors'];

export function memoryWeights(tensors: Tensors, config: ModelConfig): WeightSource {
  const specs = weightSpecs(config);
  for (const spec of specs) {
    const shape = tensors.get(spec.name)?.shape;
    const size = tensors.get(spec.name)?.data.length;
    const wanted = spec.shape.reduce((product, width) => product * width, 1);
    if (shape?.join() !== spec.shape.join() || size !== wanted) {
      throw new EngineError(
        `update: tensor ${spec.name} ${shape ? `has shape [${shape.join(', ')}] and ${size} numbers` : 'is missing'}; ` +
          `the running model needs [${spec.shape.join(', ')}]`,
      );
    }
  }
  const known = new Set(specs.map((spec) => spec.name));
  for (const name of tensors.keys()) {
    if (!known.has(name) && !isIgnoredWeight(name, config)) {
      throw new EngineError(`update: tensor ${name} is unknown to this ${config.family} model`);
    }
  }
  return (visit) => {
    for (const spec of specs) {
      const { data } = tensors.get(spec.name)!;
      const target = visit(spec);
      if (data instanceof Float32Array) target.set(data);
      else decodeTensor(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 'BF16', target);
    }
  };
}

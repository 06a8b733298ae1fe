/** Reads what make.py wrote. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readTensors } from '../../../src/engine/model/files.ts';
import type { AdamOptions, Output, Row } from '../../../src/training/trainer.ts';

export interface EngineGolden {
  readonly directory: string;
  readonly madeWith: string;
  readonly temperature: number;
  readonly rows: readonly Row[];
  readonly names: readonly Output[];
  /** By output, one array per row. */
  readonly outputs: { readonly [K in Output]?: readonly Float32Array[] };
  readonly gradientsByOutput: { readonly [K in Output]?: readonly Float32Array[] };
  readonly loss: number;
  readonly gradNorm: number;
  readonly adam: AdamOptions;
  /** dL/dθ, and θ after one clipped step, by Hugging Face name. */
  readonly gradient: ReadonlyMap<string, Float32Array>;
  readonly after: ReadonlyMap<string, Float32Array>;
}

interface GoldenJson {
  made_with: string;
  temperature: number;
  rows: { ids: number[]; targets: number[] }[];
  gradients: Record<Output, number[]>[];
  outputs: Record<Output, number[]>[];
  loss: number;
  grad_norm: number;
  clip_norm: number;
  adam: { lr: number; betas: [number, number]; eps: number; weight_decay: number };
}

export function readEngineGolden(directory: string): EngineGolden {
  const json = JSON.parse(readFileSync(join(directory, 'golden.json'), 'utf8')) as GoldenJson;
  const names = Object.keys(json.outputs[0]!) as Output[];
  const arrays = (rows: Record<Output, number[]>[]) =>
    Object.fromEntries(names.map((name) => [name, rows.map((row) => Float32Array.from(row[name]))]));
  const tensors = (file: string) =>
    new Map(
      readTensors(join(directory, file)).tensors.map(({ name, data }) => [
        name.replace('base_model.model.', ''),
        data,
      ]),
    );
  return {
    directory,
    madeWith: json.made_with,
    temperature: json.temperature,
    rows: json.rows.map(({ ids, targets }) => ({
      ids: Int32Array.from(ids),
      targets: Uint8Array.from(targets),
    })),
    names,
    outputs: arrays(json.outputs),
    gradientsByOutput: arrays(json.gradients),
    loss: json.loss,
    gradNorm: json.grad_norm,
    adam: {
      learningRate: json.adam.lr,
      beta1: json.adam.betas[0],
      beta2: json.adam.betas[1],
      epsilon: json.adam.eps,
      weightDecay: json.adam.weight_decay,
      clipNorm: json.clip_norm,
    },
    gradient: tensors('gradient.safetensors'),
    after: tensors('after.safetensors'),
  };
}

/** max |a − b| / max |b|: relative to the tensor's own scale. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let difference = 0;
  let scale = 1e-12;
  for (let index = 0; index < expected.length; index++) {
    difference = Math.max(difference, Math.abs(actual[index]! - expected[index]!));
    scale = Math.max(scale, Math.abs(expected[index]!));
  }
  return actual.length === expected.length ? difference / scale : Number.POSITIVE_INFINITY;
}

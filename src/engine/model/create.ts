/** Random models: a shape, a tokenizer, a seed. */
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { createRandom, hashSeed } from '../../lib/random.ts';
import { configText, type ModelConfig, modelConfigJson } from './config.ts';
import { FAMILIES, type FamilyTraits, type ModelFamily } from './families.ts';
import { FileSet, readJson, TOKENIZER_FILES } from './files.ts';
import type { VisionConfig } from './vision-config.ts';
import { rowElements, type WeightSpec, weightElements, weightSpecs } from './weights.ts';

/** What a tokenizer decides for a model. */
interface TokenizerFacts {
  readonly vocabulary: number;
  readonly bosId: number | undefined;
  readonly eosIds: readonly number[];
}

type Shape = Omit<ModelConfig, 'family' | 'vision' | keyof FamilyTraits | keyof TokenizerFacts>;

/** The encoder of a new model that sees, and the sizes to which its processor brings images. */
export interface VisionShape extends Omit<VisionConfig, 'imageId' | 'marks'> {
  readonly minPixels: number;
  readonly maxPixels: number;
}

const COMMON = { normEpsilon: 1e-6, tied: true } as const;

/** `26m` has the shape of MiniMind2-Small; counts are for vocabularies of about 60, 150, 2000 and 6400. */
export const MODEL_SIZES = {
  tiny: {
    ...COMMON,
    hidden: 32,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headSize: 16,
    intermediate: 64,
    contextTokens: 512,
    ropeBase: 1000,
  },
  '1m': {
    ...COMMON,
    hidden: 128,
    layers: 4,
    heads: 8,
    kvHeads: 4,
    headSize: 32,
    intermediate: 352,
    contextTokens: 2048,
    ropeBase: 1000,
  },
  '11m': {
    ...COMMON,
    hidden: 384,
    layers: 6,
    heads: 6,
    kvHeads: 2,
    headSize: 64,
    intermediate: 1152,
    contextTokens: 8192,
    ropeBase: 10000,
  },
  '26m': {
    ...COMMON,
    hidden: 512,
    layers: 8,
    heads: 8,
    kvHeads: 2,
    headSize: 64,
    intermediate: 1408,
    contextTokens: 32768,
    ropeBase: 1000000,
  },
} as const satisfies Record<string, Shape>;

/** The name of a ready shape for new models. */
export type ModelSize = keyof typeof MODEL_SIZES;

/** The folder, shape and tokenizer of a new model with random weights. */
export interface CreateModelOptions {
  readonly directory: string;
  readonly size: ModelSize;
  /** A folder with a `tokenizer.json`, or that file; its companions are copied along. */
  readonly tokenizer: string;
  readonly family?: ModelConfig['family'];
  readonly seed?: number;
  readonly overrides?: Partial<Shape>;
  /** With the family `qwen2_5_vl`; the tokenizer has `<|image_pad|>` then. */
  readonly vision?: VisionShape;
}

/** Writes a model folder with random weights and returns its config. */
export function createModel(options: CreateModelOptions): ModelConfig {
  const { directory, size, family = 'llama', seed = 0, vision } = options;
  if (!Object.hasOwn(MODEL_SIZES, size)) {
    throw new ConfigError(`size ${size} is unknown; ${Object.keys(MODEL_SIZES).join(', ')} are known`);
  }
  if (existsSync(join(directory, 'config.json'))) {
    throw new ConfigError(`${directory} already holds a model; choose another folder`);
  }
  if ((family === 'qwen2_5_vl') !== (vision !== undefined)) {
    throw new ConfigError(
      `family ${family} ${vision ? 'has no vision' : 'needs vision: the shape of its encoder'}`,
    );
  }
  const tokenizer = tokenizerFolder(options.tokenizer);
  const shape = { ...MODEL_SIZES[size], ...options.overrides };
  const config: ModelConfig = {
    family,
    ...familyShape(family, shape),
    ...shape,
    ...tokenizerFacts(tokenizer),
    ...FAMILIES[family].traits,
    ...(vision ? { vision: visionOf(vision, tokenizer) } : {}),
  };
  mkdirSync(directory, { recursive: true });
  const files = new FileSet(directory);
  files.text('config.json', configText(modelConfigJson(config)));
  files.tensors(
    'model.safetensors',
    weightSpecs(config).map((spec) => ({
      name: spec.name,
      shape: spec.shape,
      data: randomWeight(spec, seed, config.normOffset),
    })),
  );
  files.copy(tokenizer, TOKENIZER_FILES);
  if (vision) files.text('preprocessor_config.json', `${JSON.stringify(processorJson(vision), null, 2)}\n`);
  files.commit();
  return config;
}

/** What a family has beyond its traits: windows of a quarter of the context, caps, the rotation of local layers. */
function familyShape(
  family: ModelFamily,
  { headSize, layers, contextTokens }: Shape,
): Pick<Shape, 'local' | 'queryScalar' | 'attentionCap' | 'logitCap'> {
  const { local, defaults } = FAMILIES[family];
  const { queryScalar, attentionCap, logitCap } = defaults;
  return {
    ...(queryScalar === undefined ? {} : { queryScalar: headSize, attentionCap, logitCap }),
    ...(local && local.window !== null
      ? {
          local: {
            window: Math.ceil(contextTokens / 4),
            layers: Array.from({ length: layers }, (_, layer) => local.isLocal(layer, undefined)),
            ...(local.ropeBase === undefined ? {} : { rope: { ropeBase: local.ropeBase } }),
          },
        }
      : {}),
  };
}

function visionOf({ minPixels: _, maxPixels: __, ...shape }: VisionShape, tokenizer: string): VisionConfig {
  const ids = readTokenIds(tokenizer).ids;
  const imageId = ids.get('<|image_pad|>');
  if (imageId === undefined) {
    throw new ConfigError(`${tokenizer}: the tokenizer of a model that sees needs the token <|image_pad|>`);
  }
  const named = { vision_start_token_id: '<|vision_start|>', vision_end_token_id: '<|vision_end|>' };
  const marks = Object.entries(named).flatMap(([name, token]) => {
    const id = ids.get(token);
    return id === undefined ? [] : [[name, id] as const];
  });
  return { ...shape, imageId, marks: Object.fromEntries(marks) };
}

/** `preprocessor_config.json` as transformers writes it. */
function processorJson({ patch, merge, frames, minPixels, maxPixels }: VisionShape) {
  return {
    image_processor_type: 'Qwen2VLImageProcessor',
    do_convert_rgb: true,
    do_normalize: true,
    do_rescale: true,
    do_resize: true,
    image_mean: [0.5, 0.5, 0.5],
    image_std: [0.5, 0.5, 0.5],
    resample: 3,
    rescale_factor: 1 / 255,
    patch_size: patch,
    merge_size: merge,
    temporal_patch_size: frames,
    min_pixels: minPixels,
    max_pixels: maxPixels,
    size: { shortest_edge: minPixels, longest_edge: maxPixels },
  };
}

/**
 * Linear layers and embeddings are normal with standard deviation 1/√fan_in: activations and logits then
 * start at a scale near 1, and a small model learns far sooner than with a fixed 0.02.
 */
export function randomWeight(spec: WeightSpec, seed: number, normOffset = 0): Float32Array {
  const data = new Float32Array(weightElements(spec));
  if (spec.kind === 'norm') return data.fill(1 - normOffset);
  if (spec.kind === 'bias') return data;
  const random = createRandom(hashSeed(seed, spec.name));
  const deviation = 1 / Math.sqrt(rowElements(spec));
  for (let index = 0; index < data.length; index += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - random.next()));
    const angle = 2 * Math.PI * random.next();
    data[index] = radius * Math.cos(angle);
    if (index + 1 < data.length) data[index + 1] = radius * Math.sin(angle);
  }
  return data;
}

function tokenizerFolder(path: string): string {
  if (!existsSync(path)) throw new ConfigError(`tokenizer ${path}: no such file or folder`);
  if (statSync(path).isDirectory()) {
    if (existsSync(join(path, 'tokenizer.json'))) return path;
    throw new ConfigError(`tokenizer ${path}: no tokenizer.json in this folder`);
  }
  if (basename(path) === 'tokenizer.json') return dirname(path);
  throw new ConfigError(`tokenizer ${path}: a file named tokenizer.json, or its folder, is needed`);
}

function readTokenIds(folder: string): { vocabulary: number; ids: Map<string, number> } {
  const file = join(folder, 'tokenizer.json');
  const json = readJson(file) as {
    model?: { vocab?: Record<string, number> | unknown[] };
    added_tokens?: { id: number; content: string }[];
  } | null;
  const vocab = json?.model?.vocab;
  if (typeof vocab !== 'object' || vocab === null) throw new ConfigError(`${file}: model.vocab is missing`);
  const added = json?.added_tokens ?? [];
  let vocabulary = Array.isArray(vocab) ? vocab.length : 0;
  const ids = new Map<string, number>(added.map(({ content, id }) => [content, id]));
  if (!Array.isArray(vocab)) {
    for (const [token, id] of Object.entries(vocab)) {
      vocabulary = Math.max(vocabulary, id + 1);
      if (!ids.has(token)) ids.set(token, id);
    }
  }
  for (const { id } of added) vocabulary = Math.max(vocabulary, id + 1);
  return { vocabulary, ids };
}

function tokenizerFacts(folder: string): TokenizerFacts {
  const { vocabulary, ids } = readTokenIds(folder);
  const special = specialTokens(folder);
  const eos = special.eos === undefined ? undefined : ids.get(special.eos);
  return {
    vocabulary,
    bosId: special.bos === undefined ? undefined : ids.get(special.bos),
    eosIds: eos === undefined ? [] : [eos],
  };
}

function specialTokens(folder: string): { bos: string | undefined; eos: string | undefined } {
  const file = join(folder, 'tokenizer_config.json');
  if (!existsSync(file)) return { bos: undefined, eos: undefined };
  const json = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const text = (value: unknown) =>
    typeof value === 'string' ? value : (value as { content?: string } | null | undefined)?.content;
  return { bos: text(json.bos_token), eos: text(json.eos_token) };
}

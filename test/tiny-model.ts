import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createModel } from 'rollcall';
import type { CreateModelOptions, VisionShape } from 'rollcall/options';
import { BYTE_TEMPLATE, byteTokenizerJson } from 'rollcall/testing';

/** A folder with a random model that reads and writes bytes; `tiny` has a few thousand weights. */
export async function tinyModel(
  seed = 1,
  size: 'tiny' | '1m' = 'tiny',
  overrides: CreateModelOptions['overrides'] = {},
): Promise<string> {
  const { directory, tokenizer } = await byteFiles();
  createModel({ directory, size, tokenizer, seed, overrides });
  return directory;
}

/** For prompts with tools: a schema takes thousands of bytes. */
export const LONG = { contextTokens: 8192 };

/** At most 16 tokens an image. */
const VISION: VisionShape = {
  hidden: 16,
  layers: 1,
  heads: 2,
  intermediate: 32,
  patch: 4,
  merge: 2,
  frames: 1,
  window: 16,
  fullLayers: [0],
  sections: [2, 1, 1],
  minPixels: 64,
  maxPixels: 1024,
};

/** The same for a model that sees, of the class Qwen2.5-VL. */
export async function tinySeeingModel(seed = 1): Promise<string> {
  const { directory, tokenizer } = await byteFiles();
  createModel({
    directory,
    size: 'tiny',
    family: 'qwen2_5_vl',
    vision: VISION,
    tokenizer,
    seed,
    // In transformers this class has no head size of its own: it is the hidden size over the heads.
    overrides: { ...LONG, headSize: 8 },
  });
  return directory;
}

async function byteFiles(): Promise<{ directory: string; tokenizer: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-tiny-'));
  const tokenizer = join(folder, 'tokenizer');
  await mkdir(tokenizer);
  await writeFile(join(tokenizer, 'tokenizer.json'), JSON.stringify(byteTokenizerJson()));
  await writeFile(
    join(tokenizer, 'tokenizer_config.json'),
    JSON.stringify({ chat_template: BYTE_TEMPLATE, eos_token: '<|im_end|>' }),
  );
  return { directory: join(folder, 'model'), tokenizer };
}

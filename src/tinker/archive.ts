/** How a server hands out an adapter: PEFT's two files, packed as tar and gzip, or in a folder of its disk. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { TrainerError } from '../errors.ts';

const BLOCK = 512;
const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
const REGULAR_FILE = /[0\0]/;

/** The adapter's files by name. A config that does not say which layers have an adapter is told by the weights' names. */
export function adapterFiles(given: Buffer | { readonly folder: string }): ReadonlyMap<string, Uint8Array> {
  const files = Buffer.isBuffer(given) ? untar(unzipped(given)) : filesIn(given.folder);
  const [config, weights] = [files.get(CONFIG), files.get(WEIGHTS)];
  if (!config || !weights)
    throw new TrainerError(`the archive of the adapter holds ${[...files.keys()].join(', ') || 'nothing'}`);
  const described = JSON.parse(config.toString()) as Record<string, unknown>;
  const told = Array.isArray(described['target_modules'])
    ? described
    : { ...described, target_modules: adaptedLayers(weights) };
  return new Map([
    [CONFIG, Buffer.from(`${JSON.stringify(told, null, 2)}\n`)],
    [WEIGHTS, weights],
  ]);
}

const unzipped = (bytes: Buffer) => (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes);

function filesIn(folder: string): ReadonlyMap<string, Buffer> {
  try {
    return new Map([CONFIG, WEIGHTS].map((name) => [name, readFileSync(join(folder, 'adapter', name))]));
  } catch (cause) {
    throw new TrainerError(
      `the server keeps the adapter in ${folder} of its own disk, which cannot be read here; it must be on a disk that both see`,
      { cause },
    );
  }
}

function untar(bytes: Buffer): ReadonlyMap<string, Buffer> {
  const files = new Map<string, Buffer>();
  const text = (from: number, to: number) => bytes.toString('latin1', from, to).replace(/\0.*$/s, '');
  for (let at = 0; at + BLOCK <= bytes.length && bytes[at] !== 0; ) {
    const size = Number.parseInt(text(at + 124, at + 136).trim() || '0', 8);
    const begin = at + BLOCK;
    if (!(size >= 0 && begin + size <= bytes.length))
      throw new TrainerError(`the archive of the adapter is cut off at byte ${at}`);
    const name = text(at, at + 100)
      .split('/')
      .at(-1)!;
    if (REGULAR_FILE.test(bytes.toString('latin1', at + 156, at + 157)) && name !== '')
      files.set(name, bytes.subarray(begin, begin + size));
    at = begin + BLOCK * Math.ceil(size / BLOCK);
  }
  return files;
}

/** `q_proj` and its like, from names such as `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`. */
function adaptedLayers(safetensors: Buffer): string[] {
  const length = Number(safetensors.readBigUInt64LE(0));
  const header = JSON.parse(safetensors.toString('utf8', 8, 8 + length)) as object;
  const layers = Object.keys(header).flatMap((name) => /\.([^.]+)\.lora_[AB]\./.exec(name)?.[1] ?? []);
  return [...new Set(layers)].sort();
}

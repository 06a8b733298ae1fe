/**
 * What a vision model's processor makes of an image: how large it becomes, which tokens stand for it, which numbers the
 * encoder reads. The rules are those of Hugging Face's processors, whose settings lie in the model's folder.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, DatasetError } from '../../errors.ts';
import type { Pixels } from './pixels.ts';
import { type Filter, resize } from './resize.ts';

interface Normalisation {
  readonly rescale: number;
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
  readonly filter: Filter;
}

/** Qwen2-VL, Qwen2.5-VL, Qwen3-VL: a grid of patches, as many as the image has; `merge` × `merge` of them are a token. */
export interface GridProcessor extends Normalisation {
  readonly kind: 'grid';
  readonly patch: number;
  readonly merge: number;
  /** A still image fills this many frames of a patch. */
  readonly frames: number;
  readonly minPixels: number;
  readonly maxPixels: number;
}

/** Idefics3 and SmolVLM: square tiles and then the whole image as one more. */
export interface TileProcessor extends Normalisation {
  readonly kind: 'tiles';
  readonly longestEdge: number;
  readonly tile: number;
  readonly split: boolean;
  readonly tokensPerTile: number;
}

/** LLaVA: the middle square of the image. */
export interface SquareProcessor extends Normalisation {
  readonly kind: 'square';
  readonly shortestEdge: number;
  readonly crop: { readonly width: number; readonly height: number };
  readonly patch: number;
  /** Of the encoder's states, those that are not patches and stay. */
  readonly extraTokens: number;
}

/** What a model's folder says its processor does with images. */
export type ImageProcessor = GridProcessor | TileProcessor | SquareProcessor;

export interface Size {
  readonly width: number;
  readonly height: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** The processor of a model's folder; undefined where it has none. */
export function readImageProcessor(model: string): ImageProcessor | undefined {
  const whole = readFields(join(model, 'processor_config.json'));
  const nested = whole?.image_processor;
  const own = readFields(join(model, 'preprocessor_config.json')) ?? (nested as Fields | undefined);
  return own && parseImageProcessor(own, whole ?? {}, model);
}

function readFields(file: string): Fields | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
  try {
    return JSON.parse(text) as Fields;
  } catch (cause) {
    throw new ConfigError(`${file}: not JSON (${(cause as Error).message})`, { cause });
  }
}

/** `whole` is what the text side of the processor says (`processor_config.json`). Undefined for a kind that is not known. */
export function parseImageProcessor(own: Fields, whole: Fields, place: string): ImageProcessor | undefined {
  const number = (fields: Fields, name: string, fallback?: number) => {
    const value = fields[name] ?? fallback;
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    throw new ConfigError(
      `${place}: ${name} of the image processor is ${JSON.stringify(value)}; a positive number is needed`,
    );
  };
  const size = (typeof own.size === 'object' && own.size !== null ? own.size : {}) as Fields;
  const kind = `${own.image_processor_type ?? ''} ${whole.processor_class ?? own.processor_class ?? ''}`;
  const common = {
    rescale: number(own, 'rescale_factor', 1 / 255),
    mean: threeOf(own.image_mean, [0.5, 0.5, 0.5]),
    deviation: threeOf(own.image_std, [0.5, 0.5, 0.5]),
  };
  if (/Qwen[23]/.test(kind) || (typeof own.merge_size === 'number' && typeof own.patch_size === 'number')) {
    return {
      kind: 'grid',
      ...common,
      filter: 'bicubic',
      patch: number(own, 'patch_size', 14),
      merge: number(own, 'merge_size', 2),
      frames: number(own, 'temporal_patch_size', 2),
      minPixels: number(own, 'min_pixels', number(size, 'shortest_edge', 56 * 56)),
      maxPixels: number(own, 'max_pixels', number(size, 'longest_edge', 28 * 28 * 1280)),
    };
  }
  if (/Idefics3|SmolVLM/.test(kind)) {
    const tile = (own.max_image_size ?? {}) as Fields;
    return {
      kind: 'tiles',
      ...common,
      filter: 'lanczos',
      longestEdge: number(size, 'longest_edge', 4 * 364),
      tile: number(tile, 'longest_edge', 364),
      split: own.do_image_splitting !== false,
      tokensPerTile: number(whole, 'image_seq_len', 169),
    };
  }
  if (/Llava|CLIP/.test(kind)) {
    const crop = (own.crop_size ?? {}) as Fields;
    const height = number(crop, 'height', 224);
    const drops = (whole.vision_feature_select_strategy ?? 'default') === 'default' ? 1 : 0;
    return {
      kind: 'square',
      ...common,
      filter: 'bicubic',
      shortestEdge: number(size, 'shortest_edge', 224),
      crop: { width: number(crop, 'width', 224), height },
      patch: number(whole, 'patch_size', 14),
      extraTokens: Number(whole.num_additional_image_tokens ?? 1) - drops,
    };
  }
  return undefined;
}

function threeOf(value: unknown, fallback: readonly number[]): readonly number[] {
  return Array.isArray(value) && value.length === 3 && value.every((one) => typeof one === 'number')
    ? value
    : fallback;
}

/** Width and height of an image's grid in patches. */
export function gridOf(processor: GridProcessor, { width, height }: Size): Size {
  const { patch, merge, minPixels, maxPixels } = processor;
  if (!(width > 0 && height > 0))
    throw new DatasetError(`an image of ${width} × ${height} pixels has no patches`);
  if (Math.max(width, height) / Math.min(width, height) > 200) {
    throw new DatasetError(`an image of ${width} × ${height} pixels is too long; 200 to 1 is the most`);
  }
  const factor = patch * merge;
  let [tall, wide] = [roundEven(height / factor) * factor, roundEven(width / factor) * factor];
  if (tall * wide > maxPixels) {
    const shrink = Math.sqrt((height * width) / maxPixels);
    tall = Math.max(factor, Math.floor(height / shrink / factor) * factor);
    wide = Math.max(factor, Math.floor(width / shrink / factor) * factor);
  } else if (tall * wide < minPixels) {
    const grow = Math.sqrt(minPixels / (height * width));
    tall = Math.ceil((height * grow) / factor) * factor;
    wide = Math.ceil((width * grow) / factor) * factor;
  }
  if (tall === 0 || wide === 0)
    throw new DatasetError(`an image of ${width} × ${height} pixels has no patches`);
  return { width: wide / patch, height: tall / patch };
}

/** Python's: a half goes to the even neighbour. */
function roundEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** Size of an image once it can be cut into tiles, and how many tiles that makes; 0 × 0 where it is one alone. */
export function tilesOf(processor: TileProcessor, size: Size) {
  const { longestEdge, tile, split } = processor;
  let { width, height } = size;
  const even = (value: number) => value + (value % 2);
  const ratio = width / height;
  if (width >= height) [width, height] = [longestEdge, even(Math.trunc(longestEdge / ratio))];
  else [width, height] = [even(Math.trunc(longestEdge * ratio)), longestEdge];
  const first = { width: Math.max(1, width), height: Math.max(1, height) };
  if (!split) return { first, whole: { width: tile, height: tile }, columns: 0, rows: 0 };
  const up = (value: number) => Math.ceil(value / tile) * tile;
  const again = first.width / first.height;
  const wide = first.width >= first.height ? up(first.width) : up(Math.trunc(up(first.height) * again));
  const tall = first.width >= first.height ? up(Math.trunc(up(first.width) / again)) : up(first.height);
  const several = wide > tile || tall > tile;
  return {
    first,
    whole: { width: wide, height: tall },
    columns: several ? wide / tile : 0,
    rows: several ? tall / tile : 0,
  };
}

/**
 * What stands in a prompt instead of an image's one placeholder: the placeholder again and again, and between them the
 * marks of tiles.
 */
export function expandPlaceholder(processor: ImageProcessor, size: Size, placeholder: string): string[] {
  const many = (count: number) => Array.from({ length: count }, () => placeholder);
  if (processor.kind === 'grid') {
    const { width, height } = gridOf(processor, size);
    return many((width * height) / processor.merge ** 2);
  }
  if (processor.kind === 'square') {
    const { crop, patch, extraTokens } = processor;
    return many(Math.floor(crop.height / patch) * Math.floor(crop.width / patch) + extraTokens);
  }
  const { rows, columns } = tilesOf(processor, size);
  const [around, image] = ['<fake_token_around_image>', many(processor.tokensPerTile)];
  const parts: string[] = [];
  for (let row = 1; row <= rows; row++) {
    for (let column = 1; column <= columns; column++)
      parts.push(around, `<row_${row}_col_${column}>`, ...image);
    parts.push('\n');
  }
  if (rows > 0) parts.push('\n');
  return [...parts, around, '<global-img>', ...image, around];
}

/** How many positions an image takes in the context. `\n\n` before the whole image is one token. */
export function imageTokens(processor: ImageProcessor, size: Size): number {
  const parts = expandPlaceholder(processor, size, '<image>');
  const joined = processor.kind === 'tiles' && parts.includes('\n') ? 1 : 0;
  return parts.length - joined;
}

/**
 * The numbers of a grid's patches, [patches, 3 · frames · patch²]: patches of one token stand together, tokens run row
 * by row; inside a patch channel by channel, frame by frame, row by row.
 */
export function gridPatches(processor: GridProcessor, image: Pixels): { grid: Size; values: Float32Array } {
  const { patch, merge, frames } = processor;
  const grid = gridOf(processor, image);
  const { width, rgb } = resize(image, grid.width * patch, grid.height * patch, processor.filter);
  const numbers = valuesOf(processor);
  const values = new Float32Array(grid.width * grid.height * 3 * frames * patch * patch);
  let at = 0;
  for (let blockRow = 0; blockRow < grid.height; blockRow += merge)
    for (let blockColumn = 0; blockColumn < grid.width; blockColumn += merge)
      for (let inner = 0; inner < merge * merge; inner++) {
        const top = (blockRow + Math.floor(inner / merge)) * patch;
        const left = (blockColumn + (inner % merge)) * patch;
        for (let channel = 0; channel < 3; channel++)
          for (let frame = 0; frame < frames; frame++)
            for (let y = 0; y < patch; y++)
              for (let x = 0; x < patch; x++)
                values[at++] = numbers[channel * 256 + rgb[3 * ((top + y) * width + left + x) + channel]!]!;
      }
  return { grid, values };
}

/** The pictures that an encoder of fixed size reads, each [3, height, width]. */
export function fixedViews(processor: TileProcessor | SquareProcessor, image: Pixels): Float32Array[] {
  if (processor.kind === 'square') {
    const { shortestEdge, crop } = processor;
    const scale = shortestEdge / Math.min(image.width, image.height);
    const sized = (side: number, other: number) =>
      side <= other ? shortestEdge : Math.trunc((shortestEdge * side) / other);
    const whole =
      scale === 1
        ? image
        : resize(image, sized(image.width, image.height), sized(image.height, image.width), processor.filter);
    const left = Math.floor((whole.width - crop.width) / 2);
    const top = Math.floor((whole.height - crop.height) / 2);
    return [planes(processor, whole, left, top, crop.width, crop.height)];
  }
  const { tile, filter } = processor;
  const { first, whole, rows, columns } = tilesOf(processor, image);
  const sized = resize(resize(image, first.width, first.height, filter), whole.width, whole.height, filter);
  const tiles: Float32Array[] = [];
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      tiles.push(planes(processor, sized, column * tile, row * tile, tile, tile));
  return [...tiles, planes(processor, resize(sized, tile, tile, filter), 0, 0, tile, tile)];
}

function planes(
  normalisation: Normalisation,
  { width, rgb }: Pixels,
  left: number,
  top: number,
  columns: number,
  rows: number,
): Float32Array {
  const numbers = valuesOf(normalisation);
  const values = new Float32Array(3 * rows * columns);
  for (let channel = 0; channel < 3; channel++)
    for (let y = 0; y < rows; y++)
      for (let x = 0; x < columns; x++)
        values[(channel * rows + y) * columns + x] =
          numbers[channel * 256 + rgb[3 * ((top + y) * width + left + x) + channel]!]!;
  return values;
}

/** The number of every byte of every channel. */
function valuesOf({ rescale, mean, deviation }: Normalisation): Float32Array {
  const numbers = new Float32Array(768);
  for (let at = 0; at < 768; at++)
    numbers[at] = ((at % 256) * rescale - mean[at >> 8]!) / deviation[at >> 8]!;
  return numbers;
}

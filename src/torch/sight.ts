/** Rows with images as they travel: a place for each token of an image, and the patches of each image once. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, TrainerError } from '../errors.ts';
import { decodeImage } from '../lib/images/decode.ts';
import { type ExpandedRow, type ExpandedRows, expandRows } from '../lib/images/expand-rows.ts';
import { type GridProcessor, gridPatches, readImageProcessor } from '../lib/images/processor.ts';
import type { OpenTrainerOptions, Row } from '../training/trainer.ts';
import type { ImageRef } from '../types.ts';
import type { WireArray } from './frames.ts';

/** How a model that sees takes images. */
export interface Sight {
  readonly imageId: number;
  readonly processor: GridProcessor;
  readonly readImage: OpenTrainerOptions['readImage'];
}

/** Undefined for a text model. Throws for one that sees and whose class the workers do not load. */
export async function readSight(
  model: string,
  readImage: OpenTrainerOptions['readImage'],
): Promise<Sight | undefined> {
  const config = await readFile(join(model, 'config.json'), 'utf8').catch(() => '{}');
  const json = JSON.parse(config) as Readonly<Record<string, unknown>>;
  if (json['vision_config'] === undefined) return undefined;
  if (json['model_type'] !== 'qwen2_5_vl') {
    throw new ConfigError(
      `${model} is a model that sees (${String(json['model_type'])}), which the PyTorch trainer does not train; ` +
        'qwen2_5_vl is one that it does',
    );
  }
  const processor = readImageProcessor(model);
  const imageId = json['image_token_id'];
  if (processor?.kind !== 'grid' || typeof imageId !== 'number') {
    throw new ConfigError(
      `${model}: preprocessor_config.json of a Qwen2.5-VL and image_token_id in config.json are needed`,
    );
  }
  return { imageId, processor, readImage };
}

/** Rows with places for images, the arrays that tell of them, and the way back for what the worker answers. */
export async function showRows(
  given: readonly Row[],
  { imageId, processor, readImage }: Sight,
): Promise<ExpandedRows & { readonly arrays: ReadonlyMap<string, WireArray> }> {
  const shown = new Map(given.flatMap((row) => row.images ?? []).map(({ image }) => [image.blob, image]));
  const blobs = [...shown.keys()];
  const patched = new Map(
    await Promise.all(
      [...shown.values()].map(
        async (image) => [image.blob, await patchesOf(image, processor, readImage)] as const,
      ),
    ),
  );
  const expanded = expandRows(given, imageId, (blob) => {
    const { width, height } = patched.get(blob)!.grid;
    return { width: width / processor.merge, height: height / processor.merge };
  });
  const { rows } = expanded;
  const shows = rows.flatMap((row, index) =>
    (row.pictures ?? []).flatMap(({ start, size, blob }) => [
      index,
      start,
      size.width * size.height,
      blobs.indexOf(blob),
    ]),
  );
  const grids = blobs.flatMap((blob) => {
    const { width, height } = patched.get(blob)!.grid;
    return [1, height, width];
  });
  const numbers = 3 * processor.frames * processor.patch ** 2;
  const pixels = concatenated(blobs.map((blob) => patched.get(blob)!.values));
  const places = placesOf(rows);
  const arrays = new Map<string, WireArray>([
    ['places', { shape: [places.length / 3, 3], data: places }],
    ['pixels', { shape: [pixels.length / numbers, numbers], data: pixels }],
    ['grids', { shape: [blobs.length, 3], data: Int32Array.from(grids) }],
    ['shows', { shape: [shows.length / 4, 4], data: Int32Array.from(shows) }],
  ]);
  return { ...expanded, arrays };
}

async function patchesOf(
  image: ImageRef,
  processor: GridProcessor,
  readImage: OpenTrainerOptions['readImage'],
) {
  if (!readImage) throw new TrainerError(`rows show the image ${image.blob}, and no readImage was given`);
  try {
    return gridPatches(processor, decodeImage(await readImage(image), image.mime));
  } catch (cause) {
    throw new TrainerError(`the image ${image.blob} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** Positions in time, row and column of all tokens; those of text alone are its count. */
function placesOf(rows: readonly ExpandedRow[]): Int32Array {
  const places = new Int32Array(3 * rows.reduce((sum, { ids }) => sum + ids.length, 0));
  let at = 0;
  for (const { ids, mrope } of rows) {
    if (mrope) places.set(mrope, at);
    else for (const index of ids.keys()) places.fill(index, at + 3 * index, at + 3 * index + 3);
    at += 3 * ids.length;
  }
  return places;
}

function concatenated(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

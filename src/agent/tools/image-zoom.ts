/**
 * A tool that answers with an image: verl's `ImageZoomInTool`, as DeepEyes uses it. The row brings the image
 * (`tools_kwargs.NAME.create_kwargs.image`: a file, a data URL, or bytes), a call names a box in its pixels, and the
 * model is shown its pixels. Crops are kept with the run's images, or in the folder `config.blobs`.
 */
import { resolve } from 'node:path';
import type { Image } from '@napi-rs/canvas';
import { ConfigError } from '../../errors.ts';
import { imageBlobs } from '../../services/image-blobs.ts';
import type { ToolSchema } from '../../types.ts';
import { type ClassTool, classTool, type ResultLimits } from '../class-tool.ts';
import type { Tool } from '../tool.ts';

const ZOOM_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'image_zoom_in_tool',
    description: 'Zooms in on a region of the image, given as a box in pixels.',
    parameters: {
      type: 'object',
      properties: {
        bbox_2d: {
          type: 'array',
          items: { type: 'number' },
          minItems: 4,
          maxItems: 4,
          description: '[x1, y1, x2, y2]: the top left corner, then the bottom right one.',
        },
        label: { type: 'string', description: 'What is looked at.' },
      },
      required: ['bbox_2d'],
    },
  },
};

/** Vision models see nothing in less than one patch, and refuse slivers. */
const LEAST_SIDE = 28;
const MOST_ASPECT = 100;
const PENALTY = -0.05;

export function imageZoomTool(
  config: Readonly<Record<string, unknown>>,
  schema: ToolSchema = ZOOM_SCHEMA,
  limits: ResultLimits = {},
): Tool {
  const { blobs, pixels_per_token: pixels } = config;
  if (blobs !== undefined && typeof blobs !== 'string') {
    throw new ConfigError(
      `ImageZoomInTool: config.blobs is ${JSON.stringify(blobs)}; use the path of a folder`,
    );
  }
  if (pixels !== undefined && !(typeof pixels === 'number' && pixels >= 1)) {
    throw new ConfigError(
      `ImageZoomInTool: config.pixels_per_token is ${pixels}; use the side of a token in pixels`,
    );
  }
  if (pixels !== undefined && blobs === undefined) {
    throw new ConfigError('ImageZoomInTool: config.pixels_per_token is for config.blobs, which is not given');
  }
  const kept =
    blobs === undefined
      ? undefined
      : imageBlobs(resolve(blobs), pixels === undefined ? {} : { pixelsPerToken: pixels });
  const images = new Map<string, Image>();
  const zoom: ClassTool = {
    create: async (id, { image }) => {
      images.set(id, await openImage(image));
    },
    execute: async (id, { bbox_2d: given, label }, _, { image: keep }) => {
      const image = images.get(id)!;
      const box = boxWithin(given as number[], image);
      if (typeof box === 'string') return [`Error: ${box}`, PENALTY, { success: 0 }];
      const shown = await (kept?.put ?? keep)(await crop(image, box));
      const what = typeof label === 'string' && label !== '' ? ` with label ${label}` : '';
      const content = `Zoomed in on the image to the region [${box.join(', ')}]${what}.`;
      return [{ content, images: [shown] }, 0, { success: 1 }];
    },
    release: (id) => {
      images.delete(id);
    },
  };
  return classTool(zoom, schema, limits);
}

type Box = readonly [left: number, top: number, right: number, bottom: number];

/** Whole pixels inside the image, at least `LEAST_SIDE` a side around the same middle; or what is wrong with it. */
export function boxWithin(
  given: readonly number[],
  { width, height }: { readonly width: number; readonly height: number },
): Box | string {
  const [x1, y1, x2, y2] = given as [number, number, number, number];
  const shown = `[${given.join(', ')}]`;
  if (!(x1 < x2 && y1 < y2))
    return `the box ${shown} is empty; x1 must be less than x2, and y1 less than y2.`;
  const [left, right] = [Math.max(0, x1), Math.min(width, x2)];
  const [top, bottom] = [Math.max(0, y1), Math.min(height, y2)];
  if (left >= right || top >= bottom) {
    return `the box ${shown} lies outside of the image, which is ${width} pixels wide and ${height} high.`;
  }
  if (Math.max((right - left) / (bottom - top), (bottom - top) / (right - left)) > MOST_ASPECT) {
    return `the box ${shown} is more than ${MOST_ASPECT} times as long as wide.`;
  }
  if (Math.min(width, height) < LEAST_SIDE) return `the image is smaller than ${LEAST_SIDE} pixels a side.`;
  const [x, w] = widened(left, right, width);
  const [y, h] = widened(top, bottom, height);
  return [x, y, x + w, y + h];
}

function widened(from: number, to: number, size: number): readonly [start: number, length: number] {
  const start = Math.floor(from);
  const length = Math.ceil(to) - start;
  if (length >= LEAST_SIDE) return [start, length];
  const middle = Math.round((from + to) / 2 - LEAST_SIDE / 2);
  return [Math.min(Math.max(0, middle), size - LEAST_SIDE), LEAST_SIDE];
}

async function crop(image: Image, [left, top, right, bottom]: Box): Promise<Uint8Array> {
  const { createCanvas } = await loadCanvas();
  const [width, height] = [right - left, bottom - top];
  const canvas = createCanvas(width, height);
  canvas.getContext('2d').drawImage(image, left, top, width, height, 0, 0, width, height);
  return canvas.encode('png');
}

/** As rows hold images: a path or data URL, bytes, or parquet's `{ bytes, path }`. */
async function openImage(given: unknown): Promise<Image> {
  const { loadImage } = await loadCanvas();
  if (typeof given === 'string' || given instanceof Uint8Array) return loadImage(given);
  const { bytes, path, image } = (given ?? {}) as Readonly<Record<string, unknown>>;
  const inner = bytes ?? image ?? path;
  if (inner !== undefined && inner !== null) return openImage(inner);
  throw new Error(
    'the row has no image under tools_kwargs … create_kwargs.image: a path, a data URL or bytes',
  );
}

async function loadCanvas() {
  return import('@napi-rs/canvas').catch((cause: unknown) => {
    throw new ConfigError('zooming needs the optional package @napi-rs/canvas; npm install @napi-rs/canvas', {
      cause,
    });
  });
}

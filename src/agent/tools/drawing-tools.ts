/**
 * Tools that work in the picture of a problem: an auxiliary line is drawn and the picture comes back as an image; a
 * length or an angle is measured between points. Points are in pixels of the picture, from its top left corner.
 */
import { ConfigError } from '../../errors.ts';
import { decodeImage } from '../../lib/images/decode.ts';
import type { Pixels } from '../../lib/images/pixels.ts';
import { encodePng } from '../../lib/images/png.ts';
import { readImage } from '../../services/image-blobs.ts';
import type { Task, ToolSchema } from '../../types.ts';
import { type ResultLimits, toolKwargs } from '../class-tool.ts';
import { type Tool, tool } from '../tool.ts';

type Point = readonly [x: number, y: number];

const POINT = { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 } as const;

const DRAW_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'draw_line',
    description:
      'Draws an auxiliary line into the picture, in red, and shows the picture with all lines drawn so far. Points are [x, y] in pixels from the top left corner.',
    parameters: {
      type: 'object',
      properties: {
        from: { ...POINT, description: 'Where it begins.' },
        to: { ...POINT, description: 'Where it ends.' },
      },
      required: ['from', 'to'],
    },
  },
};

const MEASURE_SCHEMA: ToolSchema = {
  type: 'function',
  function: {
    name: 'measure',
    description:
      'Measures in the picture: two points give the distance between them in pixels, three the angle at the second one in degrees. Pictures need not be drawn to scale.',
    parameters: {
      type: 'object',
      properties: {
        points: {
          type: 'array',
          items: POINT,
          minItems: 2,
          maxItems: 3,
          description: 'Two or three points [x, y].',
        },
      },
      required: ['points'],
    },
  },
};

/** Draws into the row's picture: that of `tools_kwargs.NAME.create_kwargs.image`, or the first one of its prompt. */
export function drawLineTool(schema: ToolSchema = DRAW_SCHEMA, limits: ResultLimits = {}): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true,
    ...limits,
    check: (task) => void pictureOf(task, name),
    open: async ({ task }) => {
      const { bytes, found } = await readImage(pictureOf(task, name));
      return decodeImage(bytes, found.mime);
    },
    run: async (input, { state, image }) => {
      const { from, to } = input as { from: Point; to: Point };
      for (const point of [from, to]) checkWithin(point, state);
      if (from[0] === to[0] && from[1] === to[1]) throw new Error(`from and to are both ${shown(from)}`);
      drawLine(state, from, to);
      const content = `The line from ${shown(from)} to ${shown(to)} is drawn.`;
      return { content, images: [await image(encodePng(state))] };
    },
  });
}

/** Lengths in pixels and angles in degrees between points of a picture. */
export function measureTool(schema: ToolSchema = MEASURE_SCHEMA): Tool {
  const { name, description, parameters } = schema.function;
  return tool({
    name,
    description,
    input: parameters,
    coerceInput: true,
    pure: true,
    run: (input) => {
      const [first, second, third] = (input as { points: readonly Point[] }).points as [Point, Point, Point?];
      const length = distance(first, second);
      if (!third) return `The distance is ${rounded(length)} pixels.`;
      const other = distance(third, second);
      if (length === 0 || other === 0)
        throw new Error('an angle needs two points that differ from its vertex, the second one');
      const along =
        (first[0] - second[0]) * (third[0] - second[0]) + (first[1] - second[1]) * (third[1] - second[1]);
      const angle = (Math.acos(Math.min(1, Math.max(-1, along / (length * other)))) * 180) / Math.PI;
      return `The angle is ${rounded(angle)} degrees.`;
    },
  });
}

type Source = { readonly bytes: Uint8Array } | { readonly path: string };

function pictureOf(task: Task, name: string): Source {
  const given = sourceOf(toolKwargs(task, name).create_kwargs?.image);
  const found = given ?? partsOf(task).find(({ type }) => type === 'image');
  const source = given ?? sourceOf((found as { source?: unknown } | undefined)?.source);
  if (source) return source;
  throw new ConfigError(
    `the tool ${name} draws into the first image of a prompt, or into extra_info.tools_kwargs.${name}.create_kwargs.image; ` +
      "the row has neither; give one, or leave the tool out of the row's column tools",
  );
}

function partsOf({ prompt }: Task): { readonly type: string }[] {
  const messages = Array.isArray(prompt) ? (prompt as { content?: unknown }[]) : [];
  return messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
}

/** As rows hold images: a path or data URL, bytes, or parquet's `{ bytes, path }`. */
function sourceOf(given: unknown): Source | undefined {
  if (typeof given === 'string') return { path: given };
  if (given instanceof Uint8Array) return { bytes: given };
  const { bytes, path } = (given ?? {}) as Readonly<Record<string, unknown>>;
  if (bytes instanceof Uint8Array) return { bytes };
  return typeof path === 'string' ? { path } : undefined;
}

function checkWithin(point: Point, { width, height }: Pixels): void {
  const [x, y] = point;
  if (x >= 0 && y >= 0 && x <= width && y <= height) return;
  throw new Error(
    `the point ${shown(point)} lies outside of the picture, which is ${width} pixels wide and ${height} high`,
  );
}

const RED = [220, 0, 0] as const;

/** A disc at every pixel of the way; as thick as lines of a diagram are. */
function drawLine({ width, height, rgb }: Pixels, [x1, y1]: Point, [x2, y2]: Point): void {
  const radius = Math.max(width, height) / 400;
  const reach = Math.ceil(radius);
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(x2 - x1), Math.abs(y2 - y1))));
  for (let step = 0; step <= steps; step++) {
    const x = Math.round(x1 + ((x2 - x1) * step) / steps);
    const y = Math.round(y1 + ((y2 - y1) * step) / steps);
    for (let dy = -reach; dy <= reach; dy++)
      for (let dx = -reach; dx <= reach; dx++) {
        const isInside = x + dx >= 0 && y + dy >= 0 && x + dx < width && y + dy < height;
        if (isInside && dx * dx + dy * dy <= radius * radius) rgb.set(RED, 3 * ((y + dy) * width + x + dx));
      }
  }
}

const distance = ([x1, y1]: Point, [x2, y2]: Point) => Math.hypot(x1 - x2, y1 - y2);
const shown = ([x, y]: Point) => `[${x}, ${y}]`;
const rounded = (value: number) => String(Number(value.toFixed(2)));

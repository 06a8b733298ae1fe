import { createHash, randomBytes } from 'node:crypto';
import type { TrackedLine } from '../tracker.ts';

/** A run as W&B names it. */
export interface WandbRun {
  readonly project: string;
  /** Display name of the run. */
  readonly experiment: string;
  /** User or team; the key's own default without it. */
  readonly entity?: string | undefined;
  readonly group?: string | undefined;
  readonly notes?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly id?: string | undefined;
  /** The text of each step's first trajectory as a column of the history (verl: token2text). */
  readonly text?: boolean;
}

/** Eight characters, as W&B makes its own. */
export const newRunId = (): string =>
  [...randomBytes(8)].map((byte) => 'abcdefghijklmnopqrstuvwxyz0123456789'[byte % 36]).join('');

/** A number, a text, or an image whose bytes are in a file of the run. */
export type WandbValue = number | string | object;

/** NaN and Infinity bare, as W&B's own client writes them. */
export const wandbValue = (value: WandbValue): string =>
  typeof value === 'number' ? String(value) : JSON.stringify(value);

export const wandbJson = (row: Readonly<Record<string, WandbValue>>): string =>
  `{${Object.entries(row)
    .map(([key, value]) => `${JSON.stringify(key)}:${wandbValue(value)}`)
    .join(',')}}`;

/** One row of a run's history. */
export const wandbRow = (
  { step, seconds, time, metrics, text }: TrackedLine,
  images: readonly WandbImage[],
  withText: boolean,
): Record<string, WandbValue> => ({
  ...metrics,
  ...(withText && text !== undefined && { trajectory: text }),
  ...Object.fromEntries(images.map(({ name, value }) => [name, value])),
  _step: step,
  _runtime: seconds,
  _timestamp: time / 1000,
});

/** An image as W&B's own client describes it, and the file that holds it. */
export interface WandbImage {
  readonly name: string;
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly value: object;
}

/** Files are named by the hash, so an image that many steps show is one file. */
export async function wandbImages({ images = [] }: TrackedLine): Promise<WandbImage[]> {
  const read = images.map(async ({ name, caption, width, height, png }) => {
    const bytes = await png();
    if (bytes === undefined) return [];
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const path = `media/images/${sha256.slice(0, 20)}.png`;
    const value = {
      _type: 'image-file',
      format: 'png',
      path,
      sha256,
      size: bytes.length,
      width,
      height,
      caption,
    };
    return [{ name, path, bytes, value }];
  });
  return (await Promise.all(read)).flat();
}

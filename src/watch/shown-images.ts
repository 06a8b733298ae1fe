/** The images of a trajectory, wherever they come from: its task, a tool, an MCP server, a simulated user. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeImage } from '../lib/images/decode.ts';
import { encodePng } from '../lib/images/png.ts';
import type { ImageRef, Message, Trajectory } from '../types.ts';
import { runPaths } from './run-directory.ts';
import type { TrackedImage } from './tracker.ts';

/** An image and where it stands: the message by its number, and who shows it. */
export interface ShownImage {
  readonly image: ImageRef;
  readonly message: number;
  readonly by: string;
}

/** In the order in which the model saw them; one shown twice is there twice. */
export function shownImages({ messages }: { readonly messages: readonly Message[] }): ShownImage[] {
  return messages.flatMap((message, at) => {
    if (typeof message.content === 'string') return [];
    const by = message.role === 'tool' ? `tool ${message.name}` : message.role;
    return message.content.flatMap((part) =>
      part.type === 'image' ? [{ image: part.image, message: at, by }] : [],
    );
  });
}

/** Where the run keeps an image's bytes; those of its evaluations and forks are with it. */
export const blobPath = (directory: string, { blob }: Pick<ImageRef, 'blob'>): string =>
  join(runPaths(ownerOf(directory)).blobs, blob);

function ownerOf(directory: string): string {
  const owner = /^(.+)[/\\](?:evaluations|forks)[/\\][^/\\]+$/.exec(directory.replace(/[/\\]+$/, ''))?.[1];
  return owner === undefined ? directory : ownerOf(owner);
}

/** As a PNG; undefined for what cannot be decoded here, and for an image that is no longer there. */
export async function readAsPng(directory: string, image: ImageRef): Promise<Uint8Array | undefined> {
  try {
    const bytes = await readFile(blobPath(directory, image));
    return image.mime === 'image/png' ? bytes : encodePng(decodeImage(bytes, image.mime));
  } catch {
    return undefined;
  }
}

/** A tracker is a place to look, not an archive: the first few of one trajectory tell what the model sees. */
const TRACKED_PER_STEP = 8;

/** What trackers show of a step: the images of its first trajectory, each once. */
export function trackedImages(
  directory: string,
  trajectory: Pick<Trajectory, 'id' | 'messages'> | undefined,
): TrackedImage[] {
  const shown = trajectory ? shownImages(trajectory) : [];
  const once = shown.filter(
    ({ image }, at) => shown.findIndex((other) => other.image.blob === image.blob) === at,
  );
  return once.slice(0, TRACKED_PER_STEP).map(({ image, message, by }, at) => ({
    name: `images/${at + 1}`,
    caption: `${trajectory!.id}, message ${message}, ${by}`,
    blob: image.blob,
    width: image.width,
    height: image.height,
    png: () => readAsPng(directory, image),
  }));
}

/** The images of a trajectory for the terminal, in the order in which the model saw them. */
import { readFile } from 'node:fs/promises';
import pc from 'picocolors';
import { decodePng } from '../lib/images/png.ts';
import type { Message } from '../types.ts';
import { blobPath, readAsPng, type ShownImage, shownImages } from '../watch/shown-images.ts';
import { type Graphics, iterm2Image, kittyImage, sixelImage } from './terminal-graphics.ts';

/** A line for each image, with its picture below where the terminal shows one; an image shown again is named only. */
export async function printImages(
  directory: string,
  trajectory: { readonly messages: readonly Message[] },
  graphics: Graphics,
): Promise<string> {
  const seen = new Map<string, number>();
  const lines: string[] = [];
  for (const [at, shown] of shownImages(trajectory).entries()) {
    const { image, message, by } = shown;
    const before = seen.get(image.blob);
    const what = `image ${at + 1}: message ${message}, ${by}, ${image.width}×${image.height}, ${image.tokens} tokens`;
    lines.push(
      before === undefined
        ? `${what}  ${pc.dim(blobPath(directory, image))}`
        : `${what}, the same as image ${before}`,
    );
    if (before === undefined) {
      seen.set(image.blob, at + 1);
      const picture = await pictureOf(directory, shown, graphics);
      if (picture !== undefined) lines.push(picture);
    }
  }
  return lines.join('\n');
}

async function pictureOf(
  directory: string,
  { image }: ShownImage,
  graphics: Graphics,
): Promise<string | undefined> {
  if (graphics === 'path') return undefined;
  const bytes = await readFile(blobPath(directory, image)).catch(() => undefined);
  if (bytes === undefined) return pc.red('  the file is gone');
  if (graphics === 'iterm2') return iterm2Image(bytes);
  const png = await readAsPng(directory, image);
  if (png === undefined) return pc.dim(`  ${image.mime} is not drawn here; open the file`);
  return graphics === 'kitty' ? kittyImage(png) : sixelImage(decodePng(png));
}

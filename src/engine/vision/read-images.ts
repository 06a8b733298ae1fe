import type { ImageRef } from '../../types.ts';
import type { ImageBytes } from './image-patches.ts';

/** The bytes of the images, each once, for an engine's thread. */
export async function readImages(
  images: readonly ImageRef[],
  readImage: ((image: ImageRef) => Promise<Uint8Array>) | undefined,
  fail: (message: string) => Error,
): Promise<ImageBytes[]> {
  if (!readImage) throw fail(`there are ${images.length} images, and no readImage was given`);
  const distinct = new Map(images.map((image) => [image.blob, image]));
  return Promise.all(
    [...distinct.values()].map(async (image) => {
      const bytes = await readImage(image).catch((cause: Error) => {
        throw fail(`the image ${image.blob} cannot be read: ${cause.message}`);
      });
      return { blob: image.blob, mime: image.mime, bytes };
    }),
  );
}

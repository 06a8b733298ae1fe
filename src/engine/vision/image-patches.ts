/** Images as an engine's thread takes them: bytes in, patches out, those shown lately kept. */
import { EngineError } from '../../errors.ts';
import { decodeImage } from '../../lib/images/decode.ts';
import { type GridProcessor, gridPatches, readImageProcessor } from '../../lib/images/processor.ts';
import type { VisionConfig } from '../model/vision-config.ts';
import type { PatchedImage } from './encoder.ts';

/** An image on its way to an engine's thread. */
export interface ImageBytes {
  readonly blob: string;
  readonly mime: string;
  readonly bytes: Uint8Array;
}

const KEPT_FLOATS = 32 * 2 ** 20;

export class ImagePatches {
  readonly #processor: GridProcessor;
  readonly #kept = new Map<string, PatchedImage>();
  #floats = 0;

  constructor(model: string, vision: VisionConfig) {
    const processor = readImageProcessor(model);
    if (processor?.kind !== 'grid') {
      throw new EngineError(
        `${model}: preprocessor_config.json of a Qwen2.5-VL is needed beside its weights`,
      );
    }
    const { patch, merge, frames } = processor;
    if (patch !== vision.patch || merge !== vision.merge || frames !== vision.frames) {
      throw new EngineError(
        `${model}: preprocessor_config.json has patches of ${patch} (merge ${merge}, ${frames} frames); ` +
          `config.json has ${vision.patch} (merge ${vision.merge}, ${vision.frames} frames)`,
      );
    }
    this.#processor = processor;
  }

  /** The patches of images, by blob. */
  take(images: readonly ImageBytes[]): Map<string, PatchedImage> {
    return new Map(images.map((image) => [image.blob, this.#one(image)]));
  }

  #one({ blob, mime, bytes }: ImageBytes): PatchedImage {
    const kept = this.#kept.get(blob);
    this.#kept.delete(blob); // the newest stand last
    const image = kept ?? this.#read(blob, mime, bytes);
    this.#kept.set(blob, image);
    if (!kept) this.#floats += image.values.length;
    for (const [old, { values }] of this.#kept) {
      if (this.#floats <= KEPT_FLOATS || old === blob) break;
      this.#kept.delete(old);
      this.#floats -= values.length;
    }
    return image;
  }

  #read(blob: string, mime: string, bytes: Uint8Array): PatchedImage {
    try {
      return gridPatches(this.#processor, decodeImage(bytes, mime));
    } catch (cause) {
      throw new EngineError(`the image ${blob} cannot be read: ${(cause as Error).message}`, {
        cause,
        reason: 'refused',
      });
    }
  }
}

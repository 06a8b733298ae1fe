/**
 * Images on their way to a vLLM server. It gets their bytes once; later their hash alone, under which it keeps them. It puts images
 * at the first placeholders of a prompt, so a prompt with a placeholder that a reply wrote comes expanded, with their places.
 */
import { ConfigError, EngineError } from '../errors.ts';
import type { ImageRef } from '../types.ts';
import { dataUri } from './data-uri.ts';
import { HttpStatusError } from './http/client.ts';
import type { GenerateRequest } from './server.ts';

interface ContentPart {
  readonly type: 'image_url';
  /** Absent where the server has the image. */
  readonly url?: string;
  readonly uuid: string;
}

/** Where an image stands in an expanded prompt. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

/** A request's images are sent as parts to be put at placeholders, or as features of a prompt that is expanded. */
export interface SentPrompt {
  readonly ids: Int32Array;
  readonly fields: object;
}

/** Hashes that are remembered; the oldest are forgotten first, as the server does. */
const MOST = 100_000;

/** The images that a server has. */
export class ShownImages {
  readonly #url: string;
  readonly #readImage: ((image: ImageRef) => Promise<Uint8Array>) | undefined;
  readonly #has = new Set<string>();

  constructor(url: string, readImage: ((image: ImageRef) => Promise<Uint8Array>) | undefined) {
    this.#url = url;
    this.#readImage = readImage;
  }

  /** `show` sends a prompt of nothing but these images. */
  async prompt(
    request: GenerateRequest,
    show: (prompt: SentPrompt) => Promise<unknown>,
  ): Promise<SentPrompt> {
    const { prompt, images = [] } = request;
    if (images.length === 0) return { ids: prompt, fields: {} };
    if (!hasStray(request)) return this.#withParts(prompt, images);
    const missing = images.filter(({ blob }) => !this.#has.has(blob));
    if (missing.length > 0) {
      const placeholder = prompt[request.imagePlaces![0]!]!;
      await show(await this.#withParts(new Int32Array(missing.length).fill(placeholder), missing));
      this.arrived(missing);
    }
    const { ids, ranges } = expanded(request);
    const features = {
      mm_hashes: { image: images.map(({ blob }) => blob) },
      mm_placeholders: { image: ranges },
    };
    return { ids, fields: { features, return_token_ids: true } };
  }

  arrived(images: readonly ImageRef[]): void {
    for (const { blob } of images) {
      this.#has.delete(blob);
      this.#has.add(blob);
    }
    for (const blob of this.#has) {
      if (this.#has.size <= MOST) break;
      this.#has.delete(blob);
    }
  }

  /** Whether the request may succeed with the bytes that were left out of it; they are sent again then. */
  wereLost(error: unknown, images: readonly ImageRef[]): boolean {
    if (!(error instanceof HttpStatusError) || !images.some(({ blob }) => this.#has.has(blob))) return false;
    for (const { blob } of images) this.#has.delete(blob);
    return true;
  }

  forget(): void {
    this.#has.clear();
  }

  async #withParts(ids: Int32Array, images: readonly ImageRef[]): Promise<SentPrompt> {
    const parts = await Promise.all(
      images.map(async (image): Promise<ContentPart> => {
        if (this.#has.has(image.blob)) return { type: 'image_url', uuid: image.blob };
        if (!this.#readImage)
          throw new ConfigError(`${this.#url}: a request has images, and no readImage was given`);
        return { type: 'image_url', url: dataUri(image, await this.#readImage(image)), uuid: image.blob };
      }),
    );
    return { ids, fields: { content_parts: parts, return_token_ids: true } };
  }
}

/** Whether an image's id stands where no image is, before the last image. */
function hasStray({ prompt, imagePlaces = [] }: GenerateRequest): boolean {
  const placeholder = prompt[imagePlaces[0] ?? -1];
  if (placeholder === undefined) return false;
  let found = 0;
  for (let at = 0; at <= imagePlaces.at(-1)!; at++) if (prompt[at] === placeholder) found++;
  return found > imagePlaces.length;
}

/** The prompt with as many ids for each image as it has tokens, where images stand in it, and where each id went. */
function expanded({ prompt, images = [], imagePlaces = [] }: GenerateRequest) {
  const more = images.reduce((sum, { tokens }) => sum + tokens - 1, 0);
  const ids = new Int32Array(prompt.length + more);
  const places = new Int32Array(prompt.length);
  const ranges: Range[] = [];
  let end = 0;
  for (let at = 0; at < prompt.length; at++) {
    places[at] = end;
    const isImage = imagePlaces[ranges.length] === at;
    const length = isImage ? images[ranges.length]!.tokens : 1;
    if (isImage) ranges.push({ offset: end, length });
    ids.fill(prompt[at]!, end, end + length);
    end += length;
  }
  return { ids, places, ranges };
}

/** Where each id of the prompt stands in the server's, which must be the one that is trained. */
export function placesAtServer(
  url: string,
  request: GenerateRequest,
  told: readonly Range[] | undefined,
): Int32Array {
  const { places, ranges } = expanded(request);
  for (const [number, { offset, length }] of ranges.entries()) {
    const range = told?.[number]; // versions before 0.32 do not tell
    if (!range || (range.offset === offset && range.length === length)) continue;
    throw new EngineError(
      `${url}: the server put image ${number} of request ${request.id} at ${range.offset}, ${range.length} tokens of it; here it is at ` +
        `${offset} with ${length}: is its preprocessor_config.json another than that of the run's model?`,
      { reason: 'refused' },
    );
  }
  return places;
}

/**
 * A prompt with one placeholder an image becomes one with an id for each of its tokens. These ids are negative and come
 * from the image's hash, so that the prefix cache tells images apart; the embedding reads the placeholder's own.
 */
import { EngineError } from '../../errors.ts';
import type { Picture } from '../../lib/images/expand-rows.ts';
import { mropePositions, positionLag } from '../../lib/images/mrope.ts';
import type { VisionConfig } from '../model/vision-config.ts';
import type { PatchedImage } from '../vision/encoder.ts';
import type { PlainRequest } from './request.ts';

/** What a request shows, and where. */
export interface Sight {
  readonly pictures: readonly Picture[];
  readonly images: ReadonlyMap<string, PatchedImage>;
  /** [prompt, 3] */
  readonly positions: Int32Array;
  /** How far positions behind the prompt run behind a count of tokens. */
  readonly lag: number;
  /** Where each id of the given prompt went. */
  readonly places: Int32Array;
}

export function expandPrompt(
  { id, prompt, shown = [], places: given }: PlainRequest,
  { imageId, merge }: VisionConfig,
  images: ReadonlyMap<string, PatchedImage>,
): { readonly prompt: Int32Array; readonly sight: Sight } {
  const found: number[] = [];
  for (const [at, token] of prompt.entries()) if (token === imageId) found.push(at);
  const at = given ?? found;
  if (at.length !== shown.length || at.some((place) => prompt[place] !== imageId)) {
    throw new EngineError(
      `request ${JSON.stringify(id)}: its prompt has ${found.length} placeholders (id ${imageId}) for ` +
        `${shown.length} images; there must be one for each, and places must name them`,
      { reason: 'refused' },
    );
  }
  const sizes = shown.map((blob) => {
    const { width, height } = images.get(blob)!.grid;
    return { width: width / merge, height: height / merge };
  });
  const more = sizes.map(({ width, height }) => width * height - 1);
  const wide = new Int32Array(prompt.length + more.reduce((sum, count) => sum + count, 0));
  const places = new Int32Array(prompt.length);
  const pictures: Picture[] = [];
  let shift = 0;
  for (const [index, token] of prompt.entries()) {
    const start = index + shift;
    places[index] = start;
    wide[start] = token;
    const number = pictures.length;
    if (at[number] !== index) continue;
    const blob = shown[number]!;
    pictures.push({ start, blob, size: sizes[number]! });
    for (let place = 0; place <= more[number]!; place++) wide[start + place] = keyOf(blob, place);
    shift += more[number]!;
  }
  return {
    prompt: wide,
    sight: {
      pictures,
      images,
      positions: mropePositions(wide.length, pictures),
      lag: positionLag(pictures),
      places,
    },
  };
}

/** Time, row and column of a token; behind the prompt they count on together. */
export function setPositions(
  mrope: Int32Array,
  token: number,
  sight: Sight | undefined,
  position: number,
): void {
  const { positions, lag } = sight ?? { positions: undefined, lag: 0 };
  for (let axis = 0; axis < 3; axis++) {
    mrope[3 * token + axis] = positions?.[3 * position + axis] ?? position - lag;
  }
}

/** One a token of the prompt as it was given; images are not predicted. */
export function givenLogprobs(promptLogprobs: Float32Array, sight: Sight | undefined): Float32Array {
  if (!sight) return promptLogprobs;
  const images = new Set(sight.pictures.map(({ start }) => start));
  return Float32Array.from(sight.places, (place) =>
    images.has(place) ? Number.NaN : promptLogprobs[place]!,
  );
}

/** Below zero; eight tokens of an image hold its whole hash but for a bit each. */
function keyOf(blob: string, place: number): number {
  const part = 8 * (place % Math.max(1, Math.floor(blob.length / 8)));
  return -1 - (Number.parseInt(blob.slice(part, part + 8), 16) & 0x7fffffff);
}

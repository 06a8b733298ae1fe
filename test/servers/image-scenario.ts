/** What the client of a server is asked to do with images, in front of a real server while it is recorded, and of what replays it. */
import type { CheckedServer } from '../../src/inference/check-server.ts';
import type { GenerateRequest, GenerateResult } from '../../src/inference/server.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import type { ImageRef } from '../../src/types.ts';

/** Part of a recording: it is played again with it. */
export interface ImageScene {
  /** Ids of a text, and those that begin, stand for and end an image. */
  readonly text: readonly number[];
  readonly marks: readonly [number, number, number];
  readonly images: readonly { readonly image: ImageRef; readonly base64: string }[];
  /** A folder with other weights of the served model. */
  readonly weights: string;
}

export interface ShownStep {
  readonly request: GenerateRequest;
  readonly result: GenerateResult;
}

export const readImageOf =
  ({ images }: ImageScene) =>
  async ({ blob }: ImageRef) =>
    Uint8Array.from(Buffer.from(images.find(({ image }) => image.blob === blob)!.base64, 'base64'));

export async function playImages(
  server: CheckedServer,
  { text, marks, images, weights }: ImageScene,
  begin: (step: string) => void,
): Promise<ReadonlyMap<string, ShownStep>> {
  const [first, second] = images.map(({ image }) => image);
  const steps = new Map<string, ShownStep>();
  const step = async (
    name: string,
    parts: readonly (readonly number[] | ImageRef)[],
    more: Partial<GenerateRequest> = {},
  ) => {
    begin(name);
    const request = { ...asked(name, marks, parts), ...more };
    steps.set(name, { request, result: await server.generate(request) });
  };
  const stray = [...text, marks[1]];
  await step('first-turn', [text, first!, text], { scorePrompt: true });
  await step('second-turn', [text, first!, text, second!, text], { scorePrompt: true });
  await step('streamed', [text, first!, text, second!, text], { onTokens: () => {} });
  await step('same-twice', [text, second!, second!, text]);
  await step('placeholder-in-reply', [text, first!, stray, second!, text], { scorePrompt: true });
  begin('update');
  await server.update({ kind: 'disk', version: 1, path: weights });
  await step('after-update', [text, first!, text, second!, text], { scorePrompt: true });
  await step('placeholder-after-update', [stray, second!, text], { scorePrompt: true });
  begin('pause');
  await server.pause('wait');
  await server.resume();
  await step('after-pause', [stray, first!, text], { scorePrompt: true });
  return steps;
}

function asked(
  name: string,
  [start, placeholder, end]: ImageScene['marks'],
  parts: readonly (readonly number[] | ImageRef)[],
): GenerateRequest {
  const ids: number[] = [];
  const images: ImageRef[] = [];
  const imagePlaces: number[] = [];
  for (const part of parts) {
    if ('blob' in part) {
      imagePlaces.push(ids.length + 1);
      images.push(part);
      ids.push(start, placeholder, end);
    } else ids.push(...part);
  }
  const sampling = { ...PLAIN_SAMPLING, maxTokens: 4, stopIds: [], seed: 5 };
  return { id: `${name}/`, trajectory: name, prompt: Int32Array.from(ids), images, imagePlaces, sampling };
}

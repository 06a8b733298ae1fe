/** The client of vLLM against what a real one answered to images: scripts/record-images.ts made the file. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { VllmServer } from '../src/inference/vllm.ts';
import { type ImageScene, playImages, readImageOf } from './servers/image-scenario.ts';
import type { Recording } from './servers/recorder.ts';
import { startReplay } from './servers/replay.ts';

const file = fileURLToPath(new URL('./data/servers/vllm-0.32.0-images.json', import.meta.url));
const recording = JSON.parse(readFileSync(file, 'utf8')) as Recording & { readonly scene: ImageScene };

interface Body {
  readonly token_ids: readonly number[];
  readonly content_parts?: readonly { readonly url?: string; readonly uuid: string }[];
  readonly features?: { readonly mm_hashes: { readonly image: readonly string[] } };
}

interface Answer {
  readonly choices: readonly [
    {
      readonly token_ids: readonly number[];
      readonly logprobs: { readonly content: readonly { readonly logprob: number }[] };
    },
  ];
  readonly prompt_token_ids: readonly number[];
  readonly prompt_logprobs: readonly (Readonly<Record<string, { readonly logprob: number }>> | null)[] | null;
}

const generated = (step: string) =>
  recording.pairs.filter((pair) => pair.step === step && pair.call === 'POST /inference/v1/generate');

async function play(changed: Recording & { readonly scene: ImageScene } = recording) {
  const replay = await startReplay(changed);
  const server = new VllmServer({ url: replay.url, readImage: readImageOf(changed.scene) });
  try {
    return { steps: await playImages(server, changed.scene, () => {}), unknown: replay.unknown };
  } finally {
    await server.close();
    await replay.close();
  }
}

test('images are asked for as a real vLLM was asked, and its answers read as they stand', async () => {
  const { steps, unknown } = await play();
  expect(unknown).toEqual([]);
  const [, placeholder] = recording.scene.marks;
  for (const [step, { request, result }] of steps) {
    const answer = generated(step).at(-1)!.answer;
    if (typeof answer === 'string') continue; // a stream
    const { choices, prompt_token_ids: ids, prompt_logprobs: scored } = answer as Answer;
    expect([...result.ids]).toEqual(choices[0].token_ids);
    expect([...result.logprobs]).toEqual(
      choices[0].logprobs.content.map(({ logprob }) => Math.fround(logprob)),
    );
    if (!request.scorePrompt) continue;
    // The ids that are no placeholder are the same on both sides, in order, and so are their log-probs.
    const own = (all: ArrayLike<number>) =>
      Array.from(all, (id, at) => [id, at] as const).filter(([id]) => id !== placeholder);
    expect(own(ids).map(([id]) => id)).toEqual(own(request.prompt).map(([id]) => id));
    expect(own(request.prompt).map(([, at]) => result.promptLogprobs![at])).toEqual(
      own(ids).map(([id, at]) => (at === 0 ? Number.NaN : Math.fround(scored![at]![id]!.logprob))),
    );
  }
  const streamed = steps.get('streamed')!.result;
  expect([...streamed.ids]).toEqual([...steps.get('second-turn')!.result.ids]);
});

test('an image travels once; where a reply wrote a placeholder, hashes and places travel, after a pause the bytes again', () => {
  const sent = (step: string) =>
    generated(step).map(
      ({ body }) =>
        (body as Body).content_parts?.map(({ url, uuid }) => (url ? 'bytes' : uuid)) ??
        (body as Body).features!.mm_hashes.image,
    );
  const [first, second] = recording.scene.images.map(({ image }) => image.blob);
  expect(sent('first-turn')).toEqual([['bytes']]);
  expect(sent('second-turn')).toEqual([[first, 'bytes']]);
  expect(sent('streamed')).toEqual([[first, second]]);
  expect(sent('placeholder-in-reply')).toEqual([[first, second]]);
  expect((generated('placeholder-in-reply')[0]!.body as Body).features).toBeDefined();
  expect(sent('after-update')).toEqual([[first, second]]);
  expect(sent('after-pause')).toEqual([['bytes'], [first]]);
});

test('an image that the server puts elsewhere, or as more tokens, is refused', async () => {
  const wrong = (change: (range: { offset: number; length: number }) => object) => {
    const pairs = recording.pairs.map((pair) => {
      if (pair.step !== 'first-turn' || pair.call.startsWith('GET')) return pair;
      const answer = pair.answer as { mm_placeholders: { image: { offset: number; length: number }[] } };
      return {
        ...pair,
        answer: { ...answer, mm_placeholders: { image: answer.mm_placeholders.image.map(change) } },
      };
    });
    return play({ ...recording, pairs });
  };
  await expect(wrong(({ offset, length }) => ({ offset: offset + 1, length }))).rejects.toThrow(
    /put image 0 of request first-turn\/ at \d+, 6 tokens of it; here it is at \d+ with 6/,
  );
  await expect(wrong(({ offset, length }) => ({ offset, length: 2 * length }))).rejects.toThrow(
    /12 tokens of it/,
  );
});

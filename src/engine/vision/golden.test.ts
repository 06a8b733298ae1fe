import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { readEngineGolden, relativeError } from '../../../test/golden/engine/golden.ts';
import type { SamplingParams } from '../../inference/server.ts';
import { mropePositions } from '../../lib/images/mrope.ts';
import { encodePng } from '../../lib/images/png.ts';
import { PLAIN_SAMPLING } from '../../lib/plain-sampling.ts';
import type { ImageRef } from '../../types.ts';
import { Generator } from '../generation/generator.ts';
import type { PlainRequest } from '../generation/request.ts';
import { diskWeights } from '../generation/weight-sources.ts';
import { openKernels } from '../kernels/open.ts';
import { modelConfigJson } from '../model/config.ts';
import { readModelConfig } from '../model/files.ts';
import { TrainingEngine } from '../training/training-engine.ts';
import { ImagePatches } from './image-patches.ts';

/** A tiny Qwen2.5-VL by transformers in float64: test/golden/engine/make-vision.py. */
const directory = fileURLToPath(new URL('../../../test/golden/engine/qwen2_5_vl', import.meta.url));
const golden = readEngineGolden(directory);
const file = JSON.parse(readFileSync(`${directory}/golden.json`, 'utf8')) as {
  images: string[];
  grids: [number, number, number][];
  positions: number[][][];
  rows: { images: { at: number; image: number }[] }[];
  greedy: { prompt: number[]; image: number; ids: number[] };
};
const images = file.images.map((text, index) => ({
  blob: String(index).repeat(64),
  mime: 'image/png',
  bytes: new Uint8Array(Buffer.from(text, 'base64')) as Uint8Array,
}));
const refOf = (index: number): ImageRef => {
  const [, height, width] = file.grids[index]!;
  return { ...images[index]!, width: 4 * width, height: 4 * height, tokens: (height * width) / 4 };
};
const rows = golden.rows.map((row, index) => ({
  ...row,
  images: file.rows[index]!.images.map(({ at, image }) => ({ at, image: refOf(image) })),
}));

test('positions in time, row and column are those of transformers', () => {
  for (const [index, { ids }] of rows.entries()) {
    let shift = 0;
    const pictures = rows[index]!.images.map(({ at, image }) => {
      const size = { width: image.width / 8, height: image.height / 8 };
      const start = at + shift;
      shift += image.tokens - 1;
      return { start, size };
    });
    const positions = mropePositions(ids.length + shift, pictures);
    const [time, row, column] = file.positions[index]!;
    expect([...positions]).toEqual(time!.flatMap((at, token) => [at, row![token]!, column![token]!]));
  }
});

test('the config that is written names the sizes that transformers wrote: without them it would take others', () => {
  const theirs = JSON.parse(readFileSync(`${directory}/config.json`, 'utf8')) as { vision_config: object };
  const written = modelConfigJson(readModelConfig(directory)) as { vision_config: Record<string, unknown> };
  const { model_type: _, ...ours } = written.vision_config; // the published models' own
  expect(theirs.vision_config).toMatchObject(ours);
  expect(ours).toHaveProperty('out_hidden_size', 32);
});

for (const kind of ['native', 'wasm'] as const) {
  const kernels = await openKernels({ kind, threads: 2, log: () => {} });
  const engines: TrainingEngine[] = [];
  afterAll(async () => {
    for (const engine of engines) engine.close();
    await kernels.close();
  });
  const open = (recompute = false) => {
    const engine = new TrainingEngine(kernels, { model: directory, recompute });
    engines.push(engine);
    return engine;
  };
  const options = { temperature: golden.temperature, outputs: golden.names, images };

  test(`${kind}: outputs, gradients of encoder, projector and decoder, and a step equal float64`, () => {
    for (const recompute of [false, true]) {
      const engine = open(recompute);
      const { pass, outputs } = engine.forward(rows, options);
      for (const name of golden.names)
        for (const [row, expected] of golden.outputs[name]!.entries())
          expect(relativeError(outputs[name]![row]!, expected), `${name} of row ${row}`).toBeLessThan(2e-5);
      engine.backward(pass, golden.gradientsByOutput);
      for (const [name, expected] of golden.gradient) {
        expect(relativeError(engine.gradient(name), expected), name).toBeLessThan(2e-4);
      }
      expect(engine.optimStep(golden.adam).gradNorm).toBeCloseTo(golden.gradNorm, 3);
      for (const [name, expected] of golden.after)
        expect(relativeError(engine.value(name), expected), name).toBeLessThan(1e-4);
    }
  });

  test(`${kind}: rows score alike alone, together, and with a shared prefix`, () => {
    const engine = open();
    const together = engine.score(rows, options);
    for (const [index, row] of rows.entries()) {
      const alone = engine.score([row], options);
      expect(alone.logprob![0]).toEqual(together.logprob![index]);
    }
    const [first] = rows;
    const length = first!.images[0]!.at + 2;
    const other = { ...first!, ids: first!.ids.map((id, at) => (at < length ? id : (id + 1) % 33)) };
    const apart = engine.score([first!, other], options);
    const shared = engine.score([first!, { ...other, prefix: { row: 0, length } }], options);
    for (const row of [0, 1])
      expect(relativeError(shared.logprob![row]!, apart.logprob![row]!)).toBeLessThan(1e-5);
  });

  test(`${kind}: generation is greedy as transformers is, caches by image, and scores as the trainer does`, () => {
    const config = readModelConfig(directory);
    const generator = new Generator(kernels, config, diskWeights(directory, config), {
      cacheMegabytes: 4,
      maxBatch: 8,
      version: 0,
      decoder: () => ({ decode: String }),
      patches: new ImagePatches(directory, config.vision!),
    });
    afterAll(() => generator.free());
    const { prompt, image, ids } = file.greedy;
    let key = 0;
    const ask = (shown: number, options: Partial<SamplingParams> = {}, more: Partial<PlainRequest> = {}) => {
      const request = {
        id: 'r',
        prompt: Int32Array.from(prompt),
        shown: [images[shown]!.blob],
        images: [images[shown]!],
        sampling: { ...PLAIN_SAMPLING, maxTokens: 12, stopIds: [], seed: 1, ...options },
        streams: false,
        ...more,
      };
      generator.add(key, request);
      while (generator.busy) generator.step();
      const { finished, failed } = generator.takeNews()!;
      expect(failed).toEqual([]);
      return finished.find((one) => one.key === key++)!.result;
    };
    const greedy = ask(image, { temperature: 0 });
    expect([...greedy.ids]).toEqual(ids);
    // The same image is found in the cache; another of the same size is not.
    const tokens = prompt.length - 1 + refOf(image).tokens;
    const again = ask(image, { temperature: 0 });
    expect([...again.ids]).toEqual(ids);
    expect(again.cachedTokens).toBe(tokens - 1);
    const black = { ...images[image]!, blob: 'f'.repeat(64) };
    black.bytes = encodePng({ width: 40, height: 24, rgb: new Uint8Array(3 * 40 * 24) });
    const other = ask(image, { temperature: 0 }, { shown: [black.blob], images: [black] });
    expect(other.cachedTokens).toBe(3); // what stands before it
    expect([...other.logprobs]).not.toEqual([...greedy.logprobs]);
    // Sampled log-probs are the trainer's, whatever the steps and caches.
    const sampled = ask(image, { temperature: 0.7 }, { scorePrompt: true });
    const row = {
      ids: Int32Array.from([...prompt, ...sampled.ids]),
      targets: Uint8Array.from([...prompt, ...sampled.ids], (_, at) => (at > 3 || at === 1 ? 1 : 0)),
      images: [{ at: 3, image: refOf(image) }],
    };
    const scored = open().score([row], { temperature: 0.7, outputs: ['logprob'], images }).logprob![0]!;
    expect(relativeError(scored.slice(prompt.length), sampled.logprobs)).toBeLessThan(1e-5);
    expect(sampled.promptLogprobs!.length).toBe(prompt.length);
    expect(sampled.promptLogprobs![3]).toBeNaN();
    for (const at of [1, 4, 5]) expect(sampled.promptLogprobs![at]).toBeCloseTo(scored[at]!, 4);
    // A placeholder without an image, as a reply may write it, is a token like others where the places are said.
    const stray = [35, ...prompt];
    expect(() => ask(image, {}, { prompt: Int32Array.from(stray) })).toThrow(
      /2 placeholders .* for 1 images/,
    );
    expect(ask(image, {}, { prompt: Int32Array.from(stray), places: [4] }).ids.length).toBe(12);
    const cut = { ...images[0]!, blob: 'c'.repeat(64), bytes: images[0]!.bytes.subarray(0, 90) };
    expect(() => ask(0, {}, { shown: [cut.blob], images: [cut] })).toThrow(/c{64} cannot be read: it is cut/);
  });
}

/**
 * Records what a real vLLM answers to images: `node --import ./bin/register.js scripts/record-images.ts --url http://127.0.0.1:18100
 * --model DIR --weights DIR --flags='…' --out test/data/servers/vllm-0.32.0-images.json`. DIR is a model that sees, as
 * scripts/images/make-model.py makes one. test/recorded-images.test.ts replays the file.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { memoryImages, readImageProcessor } from 'rollcall/services';
import { loadModelFiles } from '../src/chat/model-files.ts';
import { VllmServer } from '../src/inference/vllm.ts';
import { encodePng } from '../src/lib/images/png.ts';
import { type ImageScene, playImages, readImageOf } from '../test/servers/image-scenario.ts';
import { startRecorder } from '../test/servers/recorder.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { url: text, model: text, weights: text, flags: text, out: text },
});
const { url, model, weights, flags = '', out } = values;
if (!url || !model || !weights || !out) throw new Error('give --url, --model, --weights and --out');

const { tokenizer } = await loadModelFiles(model);
const kept = memoryImages({ processor: readImageProcessor(model) });
const drawn = await Promise.all(
  [
    { width: 24, height: 16 },
    { width: 16, height: 24 },
  ].map(async (size, number) => {
    const rgb = Uint8Array.from(
      { length: 3 * size.width * size.height },
      (_, at) => (7 * at * (number + 3)) % 256,
    );
    const bytes = encodePng({ ...size, rgb });
    return { image: await kept.put(bytes), base64: Buffer.from(bytes).toString('base64') };
  }),
);
const marks = ['<|vision_start|>', '<|image_pad|>', '<|vision_end|>'].map((mark) => tokenizer.tokenId(mark)!);
const scene: ImageScene = {
  text: [...tokenizer.encode('Which digit?')],
  marks: marks as unknown as ImageScene['marks'],
  images: drawn,
  weights,
};
const recorder = await startRecorder(url);
const server = new VllmServer({ url: recorder.url, readImage: readImageOf(scene) });
const steps = await playImages(server, scene, recorder.begin);
const { release = 'unknown' } = await server.info();
await server.close();
await recorder.close();
for (const [name, { result }] of steps) console.log(name, result.finish, [...result.ids].join(' '));

const head = { engine: 'vllm', release, flags, scene: { ...scene, weights: 'WEIGHTS' } };
const lines = recorder.pairs.map((pair) => JSON.stringify(pair)).join(',\n');
const written = `${JSON.stringify(head).slice(0, -1)},"pairs":[\n${lines}\n]}\n`
  .replaceAll(weights, 'WEIGHTS')
  .replaceAll(model, 'MODEL');
await writeFile(out, written);
console.log(`${recorder.pairs.length} pairs, ${written.length} bytes, ${out}`);

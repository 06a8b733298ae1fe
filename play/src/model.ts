/** The model that was written beside the page, and the engine that samples from it. */
import { createChatFormat } from '../../src/chat/chat-format.ts';
import type { ChatFormat } from '../../src/chat/format.ts';
import { createTokenizer } from '../../src/chat/tokenizer.ts';
import { Generator } from '../../src/engine/generation/generator.ts';
import { memoryWeights } from '../../src/engine/generation/weight-sources.ts';
import { KernelSet } from '../../src/engine/kernels/kernel-set.ts';
import { wasmBackend } from '../../src/engine/kernels/wasm-backend.ts';
import type { ModelConfig } from '../../src/engine/model/config.ts';
import { weightElements, weightSpecs } from '../../src/engine/model/weights.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import type { ToolSchema } from '../../src/types.ts';

/** What `rollcall report --play` puts into model.js and kernels.js. */
export interface PlayFiles {
  readonly name: string;
  readonly config: ModelConfig;
  readonly tokenizer: unknown;
  readonly tokenizerConfig: unknown;
  readonly template: string;
  readonly toolFormat?: string;
  readonly eosIds: readonly number[];
  readonly tools: readonly ToolSchema[];
  readonly system?: string;
  readonly examples: readonly string[];
  /** float32, in the order of the weights' own list. */
  readonly weights: string;
  readonly kernels: string;
}

export interface PlayModel {
  readonly format: ChatFormat;
  /** A reply; `onToken` gets what there is after each token. */
  sample(prompt: Int32Array, options: SampleOptions): Promise<Int32Array>;
}

interface SampleOptions {
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  readonly onToken: (ids: Int32Array, logprob: number) => void;
}

/** Room for a dialogue, not for a crowd. */
const CACHE_MEGABYTES = 64;

export async function openModel(files: PlayFiles): Promise<PlayModel> {
  const { config } = files;
  const module = await WebAssembly.compile(bytesOf(files.kernels));
  const kernels = new KernelSet(await wasmBackend(module));
  const all = new Float32Array(bytesOf(files.weights).buffer);
  let offset = 0;
  const tensors = new Map(
    weightSpecs(config).map((spec) => {
      const data = all.subarray(offset, offset + weightElements(spec));
      offset += data.length;
      return [spec.name, { shape: spec.shape, data }];
    }),
  );
  const tokenizer = createTokenizer(files.tokenizer, files.tokenizerConfig);
  const generator = new Generator(kernels, config, memoryWeights(tensors, config), {
    cacheMegabytes: CACHE_MEGABYTES,
    maxBatch: 1,
    version: 0,
    decoder: () => ({ decode: (ids) => tokenizer.decode(Int32Array.from(ids)) }),
  });
  const format = createChatFormat({
    tokenizer,
    template: files.template,
    eosIds: files.eosIds,
    ...(files.toolFormat === undefined ? {} : { toolFormat: files.toolFormat }),
  });
  let key = 0;
  return {
    format,
    async sample(prompt, { temperature, maxTokens, seed, onToken }) {
      generator.add(++key, {
        id: String(key),
        prompt,
        streams: true,
        sampling: {
          ...PLAIN_SAMPLING,
          temperature,
          maxTokens,
          seed,
          stopIds: format.stopIds,
        },
      });
      const ids: number[] = [];
      for (;;) {
        generator.step();
        const news = generator.takeNews();
        for (const [at, id] of (news?.streamed.ids ?? []).entries()) {
          ids.push(id);
          onToken(Int32Array.from(ids), news!.streamed.logprobs[at]!);
        }
        if (news?.failed[0]) throw new Error(news.failed[0].message);
        if (news?.finished[0]) return news.finished[0].result.ids;
        await nextFrame();
      }
    },
  };
}

/** Lets the page draw. */
const nextFrame = () => new Promise((resolve) => setTimeout(resolve, 0));

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

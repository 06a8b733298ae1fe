import {
  EngineError,
  type GenerateRequest,
  type GenerateResult,
  type InferenceServer,
  type ServerInfo,
  type WeightUpdate,
} from 'rollcall/ports';
import type { Bigram } from './bigram.ts';

export const ARITHMETIC = 'bigram f64';

/** Serves a bigram table whose weights its trainer changes in place. */
export class BigramEngine implements InferenceServer {
  readonly model: Bigram;
  #version = 0;
  #resumed: Promise<void> | undefined;
  #resume = () => {};

  constructor(model: Bigram) {
    this.model = model;
  }

  async info(): Promise<ServerInfo> {
    return {
      engine: 'bigram',
      arithmetic: ARITHMETIC,
      model: 'bigram',
      vocabulary: this.model.vocabulary,
      contextTokens: 2048,
      version: this.#version,
      logprobs: 'temperature',
      can: new Set(['pushed', 'scorePrompt', 'seeds']),
    };
  }

  async ready(): Promise<boolean> {
    return true;
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    const { prompt, sampling, signal, scorePrompt } = request;
    await this.#resumed;
    const random = mulberry32(sampling.seed);
    const ids: number[] = [];
    const logprobs: number[] = [];
    let finish: GenerateResult['finish'] = 'length';
    while (ids.length < sampling.maxTokens) {
      if (signal?.aborted) {
        finish = 'abort';
        break;
      }
      const previous = ids.at(-1) ?? prompt.at(-1)!;
      const isGreedy = sampling.temperature === 0;
      const all = this.model.logprobs(previous, isGreedy ? 1 : sampling.temperature);
      const id = isGreedy ? all.indexOf(Math.max(...all)) : choose(all, random());
      ids.push(id);
      logprobs.push(all[id]!);
      request.onTokens?.(Int32Array.of(id), Float32Array.of(all[id]!));
      if (sampling.stopIds.includes(id)) {
        finish = 'stop';
        break;
      }
    }
    return {
      ids: Int32Array.from(ids),
      logprobs: Float32Array.from(logprobs),
      finish,
      versions: ids.length > 0 ? [{ from: 0, version: this.#version }] : [],
      promptTokens: prompt.length,
      ...(scorePrompt ? { promptLogprobs: this.#score(prompt) } : {}),
    };
  }

  async pause(): Promise<void> {
    this.#resumed ??= new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  async resume(): Promise<void> {
    this.#resume();
    this.#resumed = undefined;
  }

  async update(weights: WeightUpdate): Promise<void> {
    if (weights.kind !== 'pushed') throw new EngineError(`a bigram takes no weights by ${weights.kind}`);
    this.#version = weights.version;
  }

  async close(): Promise<void> {}

  #score(prompt: Int32Array): Float32Array {
    return Float32Array.from(prompt, (id, at) =>
      at === 0 ? Number.NaN : this.model.logprobs(prompt[at - 1]!)[id]!,
    );
  }
}

function choose(logprobs: Float64Array, threshold: number): number {
  let left = threshold;
  for (const [id, logprob] of logprobs.entries()) {
    left -= Math.exp(logprob);
    if (left < 0) return id;
  }
  return logprobs.length - 1;
}

function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

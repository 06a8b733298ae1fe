/**
 * Generation without threads or promises: requests are added, `step` makes a token for each that can have one, or
 * several where guesses were right, and says which replies ended. Everything that changes weights happens between steps.
 */
import { EngineError } from '../../errors.ts';
import type { GenerateResult } from '../../inference/server.ts';
import { messageOf } from '../../lib/error-message.ts';
import { roundsKeys, type ServedAs } from '../arithmetic.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import type { PatchedImage } from '../vision/encoder.ts';
import type { ImagePatches } from '../vision/image-patches.ts';
import { expandPrompt, givenLogprobs, type Sight, setPositions } from './expand-prompt.ts';
import { ROWS_OF_GUESSES } from './guesses.ts';
import { Head } from './head.ts';
import { type LoraWeights, loadLora } from './lora.ts';
import { type PackedWeights, packWeights, type WeightSource } from './packed-weights.ts';
import { PrefixCache } from './prefix-cache.ts';
import { checkRequest, type PlainRequest } from './request.ts';
import { Scheduler } from './scheduler.ts';
import { SeenImages } from './seen-images.ts';
import { appendToken, createSequence, type RunningSequence, replyTokens } from './sequence.ts';
import { StopStrings, type TokenDecoder } from './stop-strings.ts';
import { bytesPerBlock, type SeenTokens, Transformer } from './transformer.ts';

const BLOCK_TOKENS = 16;
const STEP_TOKENS = 512;

export interface GeneratorOptions {
  readonly cacheMegabytes: number;
  /** Most requests that run at once. */
  readonly maxBatch: number;
  readonly version: number;
  /** How linear layers are held; default `float32`. */
  readonly weights?: ServedAs;
  /** Made when a request first brings stop strings. */
  readonly decoder: () => TokenDecoder;
  /** Reads images; of a model that sees. */
  readonly patches?: ImagePatches | undefined;
}

/** Totals since the engine opened, counted where K/V are written, and how it stands now. */
export interface GenerationStatistics {
  readonly steps: number;
  /** Prompt tokens whose K/V were computed; those computed again after a preemption or an update count again. */
  readonly computedPromptTokens: number;
  /** Prompt tokens found in the cache when their request began. */
  readonly cachedPromptTokens: number;
  readonly sampledTokens: number;
  /** Tokens that were guessed, and those of them that sampling confirmed. */
  readonly guessedTokens: number;
  readonly rightGuesses: number;
  readonly evictions: number;
  readonly preemptions: number;
  readonly waiting: number;
  readonly running: number;
  readonly blocksUsed: number;
  /** Blocks held by running requests; the rest are kept for later. */
  readonly blocksHeld: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly bytesInUse: number;
  readonly peakBytes: number;
}

/** What one step has for the callers. */
export interface StepNews {
  /** Tokens of requests that stream, in the order of their replies; a key occurs once for each of its tokens. */
  readonly streamed: { readonly keys: number[]; readonly ids: number[]; readonly logprobs: number[] };
  readonly finished: { readonly key: number; readonly result: GenerateResult }[];
  readonly failed: { readonly key: number; readonly message: string }[];
}

export class Generator {
  readonly config: ModelConfig;
  readonly contextTokens: number;
  readonly #kernels: Kernels;
  readonly #cache: PrefixCache;
  readonly #scheduler: Scheduler;
  readonly #transformer: Transformer;
  readonly #head: Head;
  readonly #decoder: () => TokenDecoder;
  readonly #eyes: { readonly patches: ImagePatches; readonly seen: SeenImages } | undefined;
  readonly #sequences = new Map<number, RunningSequence>();
  readonly #adapters = new Map<string, LoraWeights>();
  readonly #held: ServedAs;
  #weights: PackedWeights;
  /** Version of the last update, and what it was of: '' is the model itself. */
  #version = 0;
  #newest = '';
  /** Versions by adapter; '' is the model itself. */
  readonly #versions = new Map<string, number>();
  #order = 0;
  #news: StepNews = emptyNews();
  #counts = {
    steps: 0,
    computedPromptTokens: 0,
    cachedPromptTokens: 0,
    sampledTokens: 0,
    guessedTokens: 0,
    rightGuesses: 0,
  };

  constructor(kernels: Kernels, config: ModelConfig, source: WeightSource, options: GeneratorOptions) {
    this.#kernels = kernels;
    this.config = config;
    this.#setVersion('', options.version);
    this.#decoder = options.decoder;
    this.#held = options.weights ?? 'float32';
    this.#weights = packWeights(kernels, config, source, this.#held);
    const blocksOf = { blockTokens: BLOCK_TOKENS, half: roundsKeys(options.weights) };
    const blockBytes = bytesPerBlock(kernels, config, blocksOf);
    const most = options.maxBatch * (Math.ceil(config.contextTokens / BLOCK_TOKENS) + 1);
    const blocks = Math.min(most, Math.floor((options.cacheMegabytes * 2 ** 20) / blockBytes));
    if (blocks < 2) {
      throw new EngineError(
        `cacheMegabytes is ${options.cacheMegabytes}; this model needs at least ${Math.ceil((2 * blockBytes) / 2 ** 20)}`,
      );
    }
    this.contextTokens = Math.min(config.contextTokens, blocks * BLOCK_TOKENS);
    this.#transformer = new Transformer(kernels, config, {
      stepTokens: Math.max(STEP_TOKENS, options.maxBatch),
      sequences: options.maxBatch,
      blocks,
      ...blocksOf,
      contextTokens: this.contextTokens,
    });
    const { patches } = options;
    this.#eyes = patches && { patches, seen: new SeenImages(kernels) };
    // A step's guesses are chosen before it is known how many requests join it.
    this.#head = new Head(kernels, config, options.maxBatch + ROWS_OF_GUESSES - 1);
    this.#cache = new PrefixCache({
      blocks,
      blockTokens: BLOCK_TOKENS,
      copyBlock: (from, to) => this.#transformer.copyBlock(from, to),
    });
    this.#scheduler = new Scheduler(this.#cache, {
      maxBatch: options.maxBatch,
      stepTokens: Math.max(STEP_TOKENS, options.maxBatch),
    });
  }

  get version(): number {
    return this.#version;
  }

  /** Requests that are not answered yet. */
  get pending(): number {
    return this.#sequences.size;
  }

  /** `key` is the caller's name for the request. A request that cannot run throws, naming the field. */
  add(key: number, request: PlainRequest): void {
    checkRequest(request, {
      vocabulary: this.config.vocabulary,
      contextTokens: this.contextTokens,
      adapters: new Set(this.#adapters.keys()),
      sees: this.#eyes !== undefined,
    });
    const { stopStrings } = request.sampling;
    const stops =
      stopStrings.length > 0 ? new StopStrings(stopStrings, this.#decoder(), request.prompt) : undefined;
    const { prompt, sight } = this.#expand(request);
    const sequence = createSequence(
      key,
      this.#order++,
      { ...request, prompt, adapter: request.adapter === null ? '' : (request.adapter ?? this.#newest) },
      stops,
      this.contextTokens,
      sight,
    );
    this.#sequences.set(key, sequence);
    this.#scheduler.add(sequence);
  }

  #expand(request: PlainRequest): { readonly prompt: Int32Array; readonly sight?: Sight } {
    const { vision } = this.config;
    if (!this.#eyes || !vision || !request.shown?.length) return request;
    const expanded = expandPrompt(request, vision, this.#eyes.patches.take(request.images ?? []));
    if (expanded.prompt.length < this.contextTokens) return expanded;
    throw new EngineError(
      `request ${JSON.stringify(request.id)}: prompt is ${expanded.prompt.length} tokens long with its images; ` +
        `with room for a reply it may have ${this.contextTokens - 1} (context ${this.contextTokens})`,
    );
  }

  /** Ends a request with what it has; its reply is in the next news. */
  abort(key: number): void {
    const sequence = this.#sequences.get(key);
    if (sequence) this.#finish(sequence, 'abort');
  }

  abortAll(): void {
    for (const key of [...this.#sequences.keys()]) this.abort(key);
  }

  /** Whether a step would do anything. */
  get busy(): boolean {
    return this.#scheduler.running.length > 0 || this.#scheduler.waiting.length > 0;
  }

  /** Computes one step. */
  step(): void {
    const plan = this.#scheduler.plan();
    if (plan.length === 0) return;
    this.#counts.steps++;
    const adapters = new Set(plan.map((sequence) => sequence.adapter));
    for (const adapter of adapters) {
      const group = adapters.size === 1 ? plan : plan.filter((sequence) => sequence.adapter === adapter);
      try {
        this.#stepGroup(group, this.#adapters.get(adapter));
      } catch (error) {
        for (const sequence of [...group]) this.#fail(sequence, error);
      }
    }
  }

  /** What happened since the last call, for the callers. */
  takeNews(): StepNews | undefined {
    const news = this.#news;
    if (news.finished.length === 0 && news.failed.length === 0 && news.streamed.keys.length === 0) {
      return undefined;
    }
    this.#news = emptyNews();
    return news;
  }

  /** Replaces the model's weights. Running requests continue with the new ones; the cache is emptied. */
  updateWeights(version: number, source: WeightSource): void {
    const next = packWeights(this.#kernels, this.config, source, this.#held);
    this.#scheduler.retract();
    // A prompt is scored by one version: begin again where the old one was not done.
    for (const sequence of this.#sequences.values()) {
      if (sequence.scored < sequence.promptTokens) sequence.scored = 1;
    }
    this.#cache.flush();
    this.#eyes?.seen.forget();
    this.#weights.free();
    this.#weights = next;
    this.#setVersion('', version);
  }

  updateAdapter(version: number, name: string, directory: string): void {
    const next = loadLora(this.#kernels, this.config, directory);
    this.#scheduler.retract(name);
    this.#cache.flush(name);
    this.#adapters.get(name)?.free();
    this.#adapters.set(name, next);
    this.#setVersion(name, version);
    this.#dropOlder(name);
  }

  /** `policy@8` replaces `policy@7`, once no request samples from it. */
  #dropOlder(name: string): void {
    const owner = ownerOf(name);
    const inUse = new Set([...this.#sequences.values()].map(({ adapter }) => adapter));
    for (const other of [...this.#adapters.keys()]) {
      if (other === name || ownerOf(other) !== owner || inUse.has(other)) continue;
      this.#cache.flush(other);
      this.#adapters.get(other)!.free();
      this.#adapters.delete(other);
      this.#versions.delete(other);
    }
  }

  /** Forgets every cached prefix; what runs computes its own again. */
  flush(): void {
    this.#scheduler.retract();
    this.#cache.flush();
  }

  statistics(): GenerationStatistics {
    return {
      ...this.#counts,
      evictions: this.#cache.evictions,
      preemptions: this.#scheduler.preemptions,
      waiting: this.#scheduler.waiting.length,
      running: this.#scheduler.running.length,
      blocksUsed: this.#cache.usedBlocks,
      blocksHeld: this.#cache.capacity - this.#cache.availableBlocks,
      blocks: this.#cache.capacity,
      blockTokens: BLOCK_TOKENS,
      bytesInUse: this.#kernels.bytesInUse,
      peakBytes: this.#kernels.peakBytes,
    };
  }

  free(): void {
    this.#weights.free();
    for (const adapter of this.#adapters.values()) adapter.free();
    this.#eyes?.seen.close();
    this.#transformer.free();
    this.#head.free();
  }

  #stepGroup(group: readonly RunningSequence[], lora: LoraWeights | undefined): void {
    const tokens = this.#describe(group);
    this.#transformer.step(this.#weights, lora, tokens, group.length, this.#look(group));
    const sampled: Sampled = { rows: [], sequences: [], ahead: [], places: [] };
    let row = 0;
    for (const sequence of group) {
      if (sequence.promptLogprobs) this.#scorePrompt(sequence, row, tokens);
      row += sequence.scheduled;
      this.#countWritten(sequence);
      const { count } = sequence.guesses;
      this.#cache.advance(sequence.path!, sequence.ids, sequence.scheduled - count);
      if (sequence.path!.length < sequence.length) continue;
      for (let ahead = 0; ahead <= count; ahead++) {
        sampled.rows.push(row - 1 - count + ahead);
        sampled.sequences.push(sequence);
        sampled.ahead.push(ahead);
        sampled.places.push(replyTokens(sequence) + ahead);
      }
    }
    this.#sample(tokens, sampled);
    for (const { guesses, length } of group) {
      this.#counts.guessedTokens += guesses.count;
      this.#counts.rightGuesses += guesses.right;
      guesses.settle(length);
    }
  }

  #sample(stateRows: number, { rows, sequences, ahead, places }: Sampled): void {
    try {
      this.#head.sample(this.#weights, this.#transformer.states, stateRows, rows, sequences, places);
    } catch (error) {
      // One bad row (logits that overflowed, say) must not take its neighbours along.
      if (rows.length === 1 && this.#follows(sequences[0]!, ahead[0]!)) this.#fail(sequences[0]!, error);
      else if (rows.length > 1)
        for (let index = 0; index < rows.length; index++) {
          this.#sample(stateRows, {
            rows: [rows[index]!],
            sequences: [sequences[index]!],
            ahead: [ahead[index]!],
            places: [places[index]!],
          });
        }
      return;
    }
    for (let index = 0; index < rows.length; index++) {
      const sequence = sequences[index]!;
      if (!this.#follows(sequence, ahead[index]!)) continue;
      const id = this.#head.ids[index]!;
      this.#take(sequence, id, this.#head.logprobs[index]!);
      const { guesses, path } = sequence;
      if (!path || guesses.right === guesses.count || guesses.ids[guesses.right] !== id) continue;
      // Its keys and values are written already.
      guesses.right++;
      this.#cache.advance(path, sequence.ids, 1);
    }
  }

  /** Whether all guesses before a place were right, and the reply goes on: what was computed there counts. */
  #follows(sequence: RunningSequence, ahead: number): boolean {
    return sequence.path !== undefined && sequence.guesses.right === ahead;
  }

  /** Fills the transformer's inputs with the group's scheduled tokens. */
  #describe(group: readonly RunningSequence[]): number {
    const { ids, sequences, positions, blockTable, blocksPerSequence, mrope } = this.#transformer;
    let token = 0;
    for (let index = 0; index < group.length; index++) {
      const sequence = group[index]!;
      const path = sequence.path!;
      for (let blocks = 0, at = index * blocksPerSequence; blocks < path.blocks; blocks++) {
        blockTable[at + blocks] = path.table[blocks]!;
      }
      for (let position = path.length; position < path.length + sequence.scheduled; position++) {
        const { length, guesses } = sequence;
        const id = position < length ? sequence.ids[position]! : guesses.ids[position - length]!;
        ids[token] = id < 0 ? this.config.vision!.imageId : id;
        if (mrope) setPositions(mrope, token, sequence.sight, position);
        sequences[token] = index;
        positions[token++] = position;
      }
    }
    return token;
  }

  /** Where this step's tokens show images, and the states of these. */
  #look(group: readonly RunningSequence[]): SeenTokens[] {
    if (!this.#eyes) return [];
    const images = new Map<string, PatchedImage>();
    const shown: { token: number; blob: string; first: number; count: number }[] = [];
    let token = 0;
    for (const { path, scheduled, sight } of group) {
      const start = path!.length;
      for (const { start: at, blob, size } of sight?.pictures ?? []) {
        const from = Math.max(at, start);
        const count = Math.min(at + size.width * size.height, start + scheduled) - from;
        if (count <= 0) continue;
        images.set(blob, sight!.images.get(blob)!);
        shown.push({ token: token + from - start, blob, first: from - at, count });
      }
      token += scheduled;
    }
    if (shown.length === 0) return [];
    const states = this.#eyes.seen.look(this.#weights.encoder!, images);
    const bytes = 4 * this.config.hidden;
    return shown.map(({ blob, first, ...rest }) => ({ ...rest, from: states.get(blob)! + first * bytes }));
  }

  /** Log-probs of the prompt tokens that this step's states of the sequence, from `row` on, predict. */
  #scorePrompt(sequence: RunningSequence, row: number, stateRows: number): void {
    const start = sequence.path!.length;
    const from = Math.max(sequence.scored, start + 1);
    const to = Math.min(sequence.promptTokens, start + sequence.scheduled + 1);
    if (from >= to) return;
    const rows = Array.from({ length: to - from }, (_, index) => row + from - start - 1 + index);
    const { temperature } = sequence.sampling;
    const { vision } = this.config;
    const given = sequence.ids.subarray(from, to);
    const targets = vision ? given.map((id) => (id < 0 ? vision.imageId : id)) : given;
    const out = sequence.promptLogprobs!.subarray(from, to);
    this.#head.score(this.#weights, this.#transformer.states, stateRows, rows, targets, temperature, out);
    sequence.scored = to;
  }

  #countWritten(sequence: RunningSequence): void {
    const start = sequence.path!.length;
    this.#counts.computedPromptTokens += Math.max(
      0,
      Math.min(sequence.promptTokens - start, sequence.scheduled),
    );
  }

  /** A sampled token, and whether the reply ends with it. */
  #take(sequence: RunningSequence, id: number, logprob: number): void {
    const { versions } = sequence;
    const version = this.#versions.get(sequence.adapter)!;
    if (versions[versions.length - 1]?.version !== version) {
      versions.push({ from: replyTokens(sequence), version });
    }
    appendToken(sequence, id, logprob);
    this.#counts.sampledTokens++;
    if (sequence.streams) {
      this.#news.streamed.keys.push(sequence.key);
      this.#news.streamed.ids.push(id);
      this.#news.streamed.logprobs.push(logprob);
    }
    if (sequence.stopIds.has(id) || sequence.stopStrings?.push(id)) this.#finish(sequence, 'stop');
    else if (sequence.length >= sequence.limit) this.#finish(sequence, 'length');
  }

  #finish(sequence: RunningSequence, finish: GenerateResult['finish']): void {
    this.#remove(sequence);
    const reply = replyTokens(sequence);
    const cachedTokens = Math.max(0, sequence.cachedTokens);
    this.#counts.cachedPromptTokens += cachedTokens;
    this.#news.finished.push({
      key: sequence.key,
      result: {
        ids: sequence.ids.slice(sequence.promptTokens, sequence.length),
        logprobs: sequence.logprobs.slice(0, reply),
        finish,
        versions: sequence.versions,
        promptTokens: sequence.promptTokens,
        cachedTokens,
        ...(sequence.promptLogprobs
          ? { promptLogprobs: givenLogprobs(sequence.promptLogprobs, sequence.sight) }
          : {}),
      },
    });
  }

  #fail(sequence: RunningSequence, error: unknown): void {
    if (!this.#sequences.has(sequence.key)) return;
    this.#remove(sequence);
    this.#news.failed.push({
      key: sequence.key,
      message: messageOf(error),
    });
  }

  #setVersion(adapter: string, version: number): void {
    this.#versions.set(adapter, version);
    this.#version = version;
    this.#newest = adapter;
  }

  #remove(sequence: RunningSequence): void {
    this.#scheduler.remove(sequence);
    this.#sequences.delete(sequence.key);
  }
}

/** Tokens to sample in a step. */
interface Sampled {
  /** Of the states that predict them. */
  readonly rows: number[];
  readonly sequences: RunningSequence[];
  /** How many guesses lie before each. */
  readonly ahead: number[];
  /** In the reply, from 0. */
  readonly places: number[];
}

/** An adapter of several versions has a name for each; one without a version is its own. */
const ownerOf = (name: string) => /^(.+)@\d+$/.exec(name)?.[1] ?? ` ${name}`;

function emptyNews(): StepNews {
  return { streamed: { keys: [], ids: [], logprobs: [] }, finished: [], failed: [] };
}

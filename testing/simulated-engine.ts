/**
 * An inference server in virtual time: continuous batching with chunked prompts, K/V memory with preemption by
 * recomputation, a prefix cache, a queue. One step takes
 *
 *   stepMs + sequenceMs · requests that decode + contextMs · tokens they attend to
 *          + prefillMs · prompt tokens + requestMs · requests that these belong to
 *
 * and gives every decoding request a token. Steps between two events are not walked through one by one: their time
 * is a sum in closed form, so an hour of a busy server takes milliseconds.
 *
 * It leaves out: what tokens say (ids are random by seed, log-probs are -1); that attention makes the later chunks
 * of a long prompt more expensive; speculative decoding; host memory behind the K/V cache; the network. A step that an
 * update or pause interrupts is lost whole. Tokens are streamed when something else happens, not one by one.
 */
import { EngineError } from '../src/errors.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  ServerLoad,
  WeightUpdate,
} from '../src/inference/server.ts';
import { type Clock, sleep } from '../src/lib/clock.ts';
import { SimulatedMemory } from './simulated-memory.ts';
import {
  contextOf,
  createSequence,
  isAhead,
  nameBlocks,
  pendingOf,
  resultOf,
  type SimulatedSequence,
} from './simulated-sequence.ts';

/** What a server is made of; milliseconds and tokens. */
export interface SimulatedHardware {
  /** Fixed time of every step: reading the weights, launching kernels, scheduling. */
  readonly stepMs: number;
  /** More for each request that decodes. */
  readonly sequenceMs: number;
  /** More for each token that a decoding request attends to. */
  readonly contextMs: number;
  /** More for each prompt token computed. */
  readonly prefillMs: number;
  /** More for each request with prompt tokens in the step: receiving, scheduling and answering it; default 0. */
  readonly requestMs?: number;
  /** Most requests that run at once. */
  readonly maxBatch: number;
  /** Most prompt tokens computed in one step. */
  readonly chunkTokens: number;
  /** Tokens that the K/V memory holds. */
  readonly kvTokens: number;
  readonly prefixCache: boolean;
  /** Granularity of the prefix cache; default 16. */
  readonly blockTokens?: number;
  /** How long new weights take to arrive; default 0. */
  readonly updateMs?: number;
}

/** The hardware and the work of a simulated engine. */
export interface SimulatedEngineOptions {
  readonly clock: Clock;
  readonly hardware: SimulatedHardware;
  /** How many tokens the reply has, were there no limit. */
  readonly replyTokens: (request: GenerateRequest) => number;
  readonly vocabulary?: number;
  readonly contextTokens?: number;
}

/** What a simulated server has done. */
export interface SimulatedStatistics {
  readonly steps: number;
  /** Milliseconds in which a step was running. */
  readonly busyMs: number;
  /** Sum over steps of requests that decoded. */
  readonly decoded: number;
  readonly computedPromptTokens: number;
  readonly cachedPromptTokens: number;
  readonly preemptions: number;
  readonly evictions: number;
  readonly mostHeldTokens: number;
}

/** An inference server in virtual time: batches, caches and preempts like a real one, without computing tokens. */
export function simulatedEngine(options: SimulatedEngineOptions): SimulatedEngine {
  return new SimulatedEngine(options);
}

/** Steps that are running: `steps` of them, all alike but for the growing context. */
interface Run {
  readonly began: number;
  readonly decoding: readonly SimulatedSequence[];
  /** Prompt tokens computed in the first and only step of a run that has any. */
  readonly prompts: readonly { readonly sequence: SimulatedSequence; readonly tokens: number }[];
  readonly firstStepMs: number;
  /** How much longer each step is than the one before. */
  readonly growthMs: number;
  steps: number;
  cancelTimer: () => void;
}

export class SimulatedEngine implements InferenceServer {
  readonly #clock: Clock;
  readonly #hardware: SimulatedHardware;
  readonly #options: SimulatedEngineOptions;
  readonly #memory: SimulatedMemory;
  readonly #vocabulary: number;
  /** Both in line order. */
  readonly #running: SimulatedSequence[] = [];
  readonly #waiting: SimulatedSequence[] = [];
  /** Came while a pause let the others finish. */
  readonly #heldBack: SimulatedSequence[] = [];
  #run: Run | undefined;
  #paused: 'wait' | 'keep' | undefined;
  #emptied: (() => void)[] = [];
  #version = 0;
  #arrivals = 0;
  #counts = {
    steps: 0,
    busyMs: 0,
    decoded: 0,
    computedPromptTokens: 0,
    cachedPromptTokens: 0,
    preemptions: 0,
    mostHeldTokens: 0,
  };

  constructor(options: SimulatedEngineOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#hardware = options.hardware;
    this.#vocabulary = options.vocabulary ?? 32_000;
    this.#memory = new SimulatedMemory(options.hardware.kvTokens, options.hardware.blockTokens ?? 16);
  }

  async info(): Promise<ServerInfo> {
    return {
      engine: 'simulated',
      model: 'simulated',
      vocabulary: this.#vocabulary,
      contextTokens: this.#options.contextTokens ?? this.#hardware.kvTokens,
      version: this.#version,
      logprobs: 'temperature',
      can: new Set(['memory', 'disk', 'pauseKeep']),
    };
  }

  async ready(): Promise<boolean> {
    return true;
  }

  async load(): Promise<ServerLoad> {
    const { cachedPromptTokens, computedPromptTokens, preemptions } = this.#counts;
    const run = this.#run;
    const sampling = run ? stepsWithin(run, this.#clock.now() - run.began) * run.decoding.length : 0;
    return {
      running: this.#running.length,
      queued: this.#waiting.length + this.#heldBack.length,
      kvUse: (this.#memory.held + sampling) / this.#memory.capacity,
      kvTokens: this.#memory.capacity,
      preemptions,
      cacheHits: cachedPromptTokens / Math.max(1, cachedPromptTokens + computedPromptTokens),
    };
  }

  statistics(): SimulatedStatistics {
    return { ...this.#counts, evictions: this.#memory.evictions };
  }

  generate(request: GenerateRequest): Promise<GenerateResult> {
    return new Promise((resolve, reject) => {
      const { signal } = request;
      const place = {
        arrival: this.#arrivals++,
        blockTokens: this.#memory.blockTokens,
        vocabulary: this.#vocabulary,
      };
      const sequence = createSequence(request, this.#options.replyTokens(request), place, (result) => {
        signal?.removeEventListener('abort', onAbort);
        resolve(result);
      });
      const onAbort = () => this.#cancel(sequence);
      if (signal?.aborted) return resolve(resultOf(sequence, true));
      const most = request.prompt.length + sequence.reply.length;
      if (most > this.#memory.capacity) {
        const { id, prompt } = request;
        return reject(
          new EngineError(
            `request ${id} needs ${most} tokens of K/V memory (prompt ${prompt.length}); there are ${this.#memory.capacity}`,
          ),
        );
      }
      signal?.addEventListener('abort', onAbort, { once: true });
      if (this.#paused === 'wait') {
        this.#heldBack.push(sequence);
        return;
      }
      insertInLine(this.#waiting, sequence);
      this.#notice();
    });
  }

  async pause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    if (mode === 'wait') {
      this.#paused = 'wait';
      while (this.#running.length + this.#waiting.length > 0) {
        await new Promise<void>((resolve) => this.#emptied.push(resolve));
      }
      return;
    }
    this.#interrupt();
    this.#paused = 'keep';
    if (mode === 'keep') return;
    for (const sequence of [...this.#running, ...this.#waiting]) this.#end(sequence, true);
  }

  async resume(): Promise<void> {
    this.#paused = undefined;
    for (const sequence of this.#heldBack.splice(0)) insertInLine(this.#waiting, sequence);
    this.#notice();
  }

  async update(weights: WeightUpdate): Promise<void> {
    if (this.#hardware.updateMs) {
      const paused = this.#paused;
      if (!paused) await this.pause('keep');
      await sleep(this.#clock, this.#hardware.updateMs);
      this.#paused = paused;
    }
    this.#interrupt();
    for (const sequence of [...this.#running]) this.#retreat(sequence);
    this.#memory.flush();
    this.#version = weights.version;
    this.#notice();
  }

  async close(): Promise<void> {
    this.#interrupt();
    for (const sequence of [...this.#running, ...this.#waiting]) this.#end(sequence, true);
  }

  /** Something came or went: steps that run are cut short after the present one, so that the next one knows. */
  #notice(): void {
    const run = this.#run;
    if (!run) this.#plan();
    if (!run || run.steps === 1) return;
    const done = stepsWithin(run, this.#clock.now() - run.began);
    if (done + 1 >= run.steps) return;
    run.steps = done + 1;
    run.cancelTimer();
    run.cancelTimer = this.#timerAt(run.began + timeOf(run, run.steps), () => this.#arrive());
  }

  #cancel(sequence: SimulatedSequence): void {
    sequence.cancelled = true;
    if (!this.#running.includes(sequence)) {
      const held = this.#heldBack.indexOf(sequence);
      if (held >= 0) this.#heldBack.splice(held, 1);
      this.#end(sequence, true);
    } else if (this.#paused === 'keep') this.#end(sequence, true);
    else this.#notice();
  }

  /** At the boundary of a step: what the next steps do. */
  #plan(): void {
    if (this.#paused === 'keep') return;
    for (const sequence of this.#running.filter(({ cancelled }) => cancelled)) this.#end(sequence, true);
    this.#admit();
    this.#makeRoom();
    const { stepMs, sequenceMs, contextMs, prefillMs, requestMs = 0, chunkTokens } = this.#hardware;
    const prompts: { sequence: SimulatedSequence; tokens: number }[] = [];
    const decoding: SimulatedSequence[] = [];
    let left = chunkTokens;
    let context = 0;
    let shortest = Number.POSITIVE_INFINITY;
    for (const sequence of this.#running) {
      const pending = pendingOf(sequence);
      if (pending <= 1 && sequence.sampled > 0) {
        decoding.push(sequence);
        context += contextOf(sequence);
        shortest = Math.min(shortest, sequence.reply.length - sequence.sampled);
      } else if (left > 0) {
        const tokens = Math.min(pending, left);
        prompts.push({ sequence, tokens });
        left -= tokens;
      }
    }
    if (decoding.length + prompts.length === 0) {
      for (const tell of this.#emptied.splice(0)) tell();
      return;
    }
    const affordable = Math.floor(this.#memory.available / Math.max(1, decoding.length));
    const run: Run = {
      began: this.#clock.now(),
      decoding,
      prompts,
      firstStepMs:
        stepMs +
        sequenceMs * decoding.length +
        contextMs * context +
        prefillMs * prompts.reduce((sum, { tokens }) => sum + tokens, 0) +
        requestMs * prompts.length,
      growthMs: contextMs * decoding.length,
      steps: prompts.length > 0 ? 1 : Math.max(1, Math.min(shortest, affordable)),
      cancelTimer: () => {},
    };
    run.cancelTimer = this.#timerAt(run.began + timeOf(run, run.steps), () => this.#arrive());
    this.#run = run;
  }

  /** The steps of the run are over. */
  #arrive(): void {
    this.#finishRun(this.#run!.steps);
    this.#plan();
  }

  /** Ends the run now; a step that was under way is lost. */
  #interrupt(): void {
    const run = this.#run;
    if (!run) return;
    run.cancelTimer();
    this.#finishRun(stepsWithin(run, this.#clock.now() - run.began));
  }

  #finishRun(steps: number): void {
    const run = this.#run!;
    this.#run = undefined;
    this.#counts.busyMs += this.#clock.now() - run.began;
    if (steps === 0) return;
    this.#counts.steps += steps;
    this.#counts.decoded += steps * run.decoding.length;
    for (const { sequence, tokens } of run.prompts) {
      sequence.computed += tokens;
      this.#counts.computedPromptTokens += tokens;
      if (pendingOf(sequence) > 0) continue;
      this.#keepBlocks(sequence, sequence.computed);
      this.#sample(sequence, 1);
    }
    for (const sequence of run.decoding) this.#sample(sequence, steps);
    this.#counts.mostHeldTokens = Math.max(this.#counts.mostHeldTokens, this.#memory.held);
    const all = [...run.prompts.map(({ sequence }) => sequence), ...run.decoding];
    for (const sequence of all) if (sequence.sampled >= sequence.reply.length) this.#end(sequence, false);
  }

  #sample(sequence: SimulatedSequence, tokens: number): void {
    if (sequence.versions.at(-1)?.version !== this.#version)
      sequence.versions.push({ from: sequence.sampled, version: this.#version });
    const from = sequence.sampled;
    sequence.sampled += tokens;
    sequence.computed = contextOf(sequence) - 1; // the last one's K/V come with the next step
    sequence.own += tokens;
    this.#memory.take(tokens);
    const { onTokens } = sequence.request;
    onTokens?.call(
      sequence.request,
      sequence.reply.slice(from, sequence.sampled),
      new Float32Array(tokens).fill(-1),
    );
  }

  #admit(): void {
    while (this.#running.length < this.#hardware.maxBatch) {
      const next = this.#waiting[0];
      if (!next) return;
      const { names } = next.blocks;
      const { blockTokens } = this.#memory;
      const context = contextOf(next);
      // One token is always computed.
      const usable = this.#hardware.prefixCache ? Math.floor((context - 1) / blockTokens) : 0;
      const cached = this.#memory.match(names, usable);
      const own = context - cached.length * blockTokens;
      const needed = own + this.#memory.idleTokens(cached);
      const spare = this.#running.length + 1; // a token for each that runs
      if (needed + spare > this.#memory.available && this.#running.length > 0) return;
      this.#waiting.shift();
      this.#memory.hold(cached);
      this.#memory.take(own);
      next.held = cached;
      next.own = own;
      next.computed = cached.length * blockTokens;
      if (next.sampled === 0) next.cachedTokens = next.computed;
      this.#counts.cachedPromptTokens += next.computed;
      insertInLine(this.#running, next);
    }
  }

  /** Every request that runs can sample a token; if memory is short, the last in line waits and loses its place in it. */
  #makeRoom(): void {
    while (this.#running.length > 1 && this.#memory.available < this.#running.length) {
      this.#counts.preemptions++;
      this.#retreat(this.#running.at(-1)!);
    }
  }

  #retreat(sequence: SimulatedSequence): void {
    this.#running.splice(this.#running.indexOf(sequence), 1);
    this.#letGo(sequence);
    insertInLine(this.#waiting, sequence);
  }

  #end(sequence: SimulatedSequence, aborted: boolean): void {
    const place = this.#running.indexOf(sequence);
    if (place >= 0) this.#running.splice(place, 1);
    else if (this.#waiting.includes(sequence)) this.#waiting.splice(this.#waiting.indexOf(sequence), 1);
    this.#letGo(sequence);
    sequence.settle(resultOf(sequence, aborted));
  }

  /** What it held stays in the cache for requests with the same beginning. */
  #letGo(sequence: SimulatedSequence): void {
    nameBlocks(sequence);
    this.#keepBlocks(sequence, sequence.computed);
    this.#memory.give(sequence.own);
    this.#memory.release(sequence.held);
    sequence.own = 0;
    sequence.held = [];
    sequence.computed = 0;
  }

  #keepBlocks(sequence: SimulatedSequence, tokens: number): void {
    if (!this.#hardware.prefixCache) return;
    const { blockTokens } = this.#memory;
    const { names } = sequence.blocks;
    const full = Math.min(Math.floor(tokens / blockTokens), names.length);
    for (let at = sequence.held.length; at < full; at++) {
      sequence.held.push(this.#memory.turnIntoBlock(names[at]!));
      sequence.own -= blockTokens;
    }
  }

  #timerAt(at: number, fire: () => void): () => void {
    return this.#clock.timer(Math.max(0, at - this.#clock.now()), fire);
  }
}

/** When the first `steps` of a run are over: n·first + growth·(0 + 1 + … + n−1). */
function timeOf({ firstStepMs, growthMs }: Run, steps: number): number {
  return steps * firstStepMs + (growthMs * steps * (steps - 1)) / 2;
}

/** How many steps of a run are over after `elapsed` milliseconds: the inverse of `timeOf`. */
function stepsWithin(run: Run, elapsed: number): number {
  const { firstStepMs, growthMs, steps } = run;
  const half = firstStepMs - growthMs / 2;
  let done =
    growthMs > 0
      ? Math.floor((Math.sqrt(half * half + 2 * growthMs * elapsed) - half) / growthMs)
      : Math.floor(elapsed / firstStepMs);
  const late = elapsed + 1e-9 * (1 + elapsed); // sums of the clock and of the formula differ in the last bits
  while (done < steps && timeOf(run, done + 1) <= late) done++;
  while (done > 0 && timeOf(run, done) > late) done--;
  return Math.min(done, steps);
}

function insertInLine(line: SimulatedSequence[], sequence: SimulatedSequence): void {
  let low = 0;
  let high = line.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAhead(sequence, line[middle]!)) high = middle;
    else low = middle + 1;
  }
  line.splice(low, 0, sequence);
}

/** The inference port on this machine's CPU: a proxy to a thread that owns the model. */
import type { Worker } from 'node:worker_threads';
import { ConfigError, EngineError } from '../errors.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  ServerLoad,
  WeightUpdate,
} from '../inference/server.ts';
import { startWorker } from '../lib/worker.ts';
import type { ImageRef } from '../types.ts';
import type { ServedAs } from './arithmetic.ts';
import type { GenerationStatistics, StepNews } from './generation/generator.ts';
import type { Ask, FromEngine, ServerSetup, ToEngine } from './generation/messages.ts';
import { readImages } from './vision/read-images.ts';

export interface EmbeddedServerOptions {
  /** A model folder in the Hugging Face layout. */
  readonly model: string;
  /** Version of the weights in that folder. */
  readonly version?: number;
  /** Threads that compute; default the machine's parallelism. */
  readonly threads?: number;
  readonly kernels?: 'native' | 'wasm';
  /** How linear layers are held; default `float32`. With `int8` inputs of products are rounded too. */
  readonly weights?: ServedAs;
  /** Memory for cached K/V. */
  readonly cacheMegabytes?: number;
  /** Most requests that run at once; further ones wait. */
  readonly maxBatch?: number;
  /** Limit for building kernels and reading the model. */
  readonly openTimeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Receives one line when kernels are built or cannot be; default standard error. */
  readonly log?: (line: string) => void;
  /** The bytes of an image that a request shows. */
  readonly readImage?: ((image: ImageRef) => Promise<Uint8Array>) | undefined;
}

const DEFAULTS = { cacheMegabytes: 256, maxBatch: 256, openTimeoutMs: 300_000 };
const CLOSE_TIMEOUT_MS = 5000;

/** Starts the engine's thread and waits until the model is loaded. */
export async function openServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  const positive = (name: 'threads' | 'cacheMegabytes' | 'maxBatch', whole: boolean) => {
    const value = options[name];
    if (value === undefined || (value > 0 && Number.isFinite(value) && (!whole || Number.isInteger(value))))
      return;
    throw new ConfigError(`${name} is ${value}; a positive ${whole ? 'integer' : 'number'} is needed`);
  };
  positive('threads', true);
  positive('cacheMegabytes', false);
  positive('maxBatch', true);
  const setup: ServerSetup = {
    model: options.model,
    version: options.version ?? 0,
    weights: options.weights ?? 'float32',
    cacheMegabytes: options.cacheMegabytes ?? DEFAULTS.cacheMegabytes,
    maxBatch: options.maxBatch ?? DEFAULTS.maxBatch,
    kernels: {
      ...(options.threads === undefined ? {} : { threads: options.threads }),
      ...(options.kernels === undefined ? {} : { kind: options.kernels }),
    },
  };
  const log = options.log ?? ((line) => process.stderr.write(`${line}\n`));
  const limit = AbortSignal.timeout(options.openTimeoutMs ?? DEFAULTS.openTimeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  signal.throwIfAborted();
  const worker = startWorker('./server-worker', import.meta.url, { workerData: setup });
  try {
    const { info, description } = await untilReady(worker, log, signal);
    return new EmbeddedServer(worker, info, description, options.readImage);
  } catch (error) {
    await worker.terminate();
    throw error;
  }
}

type Ready = Extract<FromEngine, { kind: 'ready' }>;

function untilReady(worker: Worker, log: (line: string) => void, signal: AbortSignal): Promise<Ready> {
  let stopListening = () => {};
  const ready = new Promise<Ready>((resolve, reject) => {
    const onAbort = () => reject(new EngineError(`the embedded engine did not open: ${signal.reason}`));
    const onExit = (code: number) => reject(new EngineError(`the embedded engine ended with code ${code}`));
    const onMessage = (message: FromEngine) => {
      if (message.kind === 'log') log(message.line);
      if (message.kind === 'ready') resolve(message);
      if (message.kind === 'broken') {
        reject(message.config ? new ConfigError(message.message) : new EngineError(message.message));
      }
    };
    signal.addEventListener('abort', onAbort);
    worker.on('message', onMessage).on('error', reject).on('exit', onExit);
    stopListening = () => {
      signal.removeEventListener('abort', onAbort);
      worker.off('message', onMessage).off('error', reject).off('exit', onExit);
    };
  });
  return ready.finally(() => stopListening());
}

interface InFlight {
  readonly request: GenerateRequest;
  resolve(result: GenerateResult): void;
  reject(error: unknown): void;
}

export class EmbeddedServer implements InferenceServer {
  /** One line for people: which kernels, with how many threads. */
  readonly description: string;
  readonly #worker: Worker;
  readonly #readImage: EmbeddedServerOptions['readImage'];
  readonly #exited: Promise<void>;
  readonly #inFlight = new Map<number, InFlight>();
  readonly #ids = new Set<string>();
  readonly #calls = new Map<
    number,
    { resolve(value: GenerationStatistics | undefined): void; reject(error: unknown): void }
  >();
  #info: ServerInfo;
  #key = 0;
  #closed: EngineError | undefined;

  constructor(
    worker: Worker,
    info: ServerInfo,
    description: string,
    readImage?: EmbeddedServerOptions['readImage'],
  ) {
    this.#worker = worker;
    this.#readImage = readImage;
    this.#info = info;
    this.description = description;
    worker.on('message', (message: FromEngine) => this.#receive(message));
    worker.on('error', (cause: Error) => {
      this.#end(new EngineError(`the embedded engine crashed: ${cause.message}`, { cause }));
    });
    this.#exited = new Promise((resolve) => {
      worker.on('exit', (code) => {
        this.#end(new EngineError(`the embedded engine ended with code ${code}`));
        resolve();
      });
    });
  }

  async info(): Promise<ServerInfo> {
    return this.#info;
  }

  async ready(): Promise<boolean> {
    return this.#closed === undefined;
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    if (this.#closed) throw this.#closed;
    const { id, prompt, sampling, adapter, priority, scorePrompt, signal, images = [] } = request;
    if (this.#ids.has(id)) {
      throw new EngineError(`request id ${JSON.stringify(id)} is already in flight; ids are unique`);
    }
    if (signal?.aborted) return emptyReply(request);
    const seen = images.length > 0 ? await this.#shown(request, images) : {};
    if (signal?.aborted) return emptyReply(request);
    const key = this.#key++;
    const onAbort = () => this.#send({ kind: 'abort', key });
    try {
      return await new Promise<GenerateResult>((resolve, reject) => {
        this.#ids.add(id);
        this.#inFlight.set(key, { request, resolve, reject });
        signal?.addEventListener('abort', onAbort, { once: true });
        const streams = request.onTokens !== undefined;
        const plain = {
          id,
          prompt,
          sampling,
          adapter,
          priority,
          scorePrompt,
          ...seen,
          streams,
        };
        this.#send({ kind: 'generate', key, request: plain });
      });
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#inFlight.delete(key);
      this.#ids.delete(id);
    }
  }

  async #shown({ id, imagePlaces }: GenerateRequest, images: readonly ImageRef[]) {
    const refuse = (message: string) =>
      new EngineError(`request ${JSON.stringify(id)}: ${message}`, { reason: 'refused' });
    return {
      shown: images.map(({ blob }) => blob),
      places: imagePlaces,
      images: await readImages(images, this.#readImage, refuse),
    };
  }

  async pause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    await this.#ask({ kind: 'pause', mode });
  }

  async resume(): Promise<void> {
    await this.#ask({ kind: 'resume' });
  }

  async update(weights: WeightUpdate): Promise<void> {
    await this.#ask({ kind: 'update', weights });
    this.#info = { ...this.#info, version: weights.version };
  }

  async load(): Promise<ServerLoad> {
    const now = await this.stats();
    const prompt = now.cachedPromptTokens + now.computedPromptTokens;
    return {
      running: now.running,
      queued: now.waiting,
      kvUse: now.blocksHeld / now.blocks,
      kvTokens: now.blocks * now.blockTokens,
      preemptions: now.preemptions,
      ...(prompt > 0 && { cacheHits: now.cachedPromptTokens / prompt }),
    };
  }

  async stats(): Promise<GenerationStatistics> {
    return (await this.#ask({ kind: 'statistics' }))!;
  }

  /** Forgets every cached prefix. */
  async flush(): Promise<void> {
    await this.#ask({ kind: 'flush' });
  }

  async close(): Promise<void> {
    if (!this.#closed) {
      this.#send({ kind: 'ask', call: -1, ask: { kind: 'close' } });
      this.#end(new EngineError('the embedded engine was closed'));
    }
    const limit = setTimeout(() => void this.#worker.terminate(), CLOSE_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(limit);
  }

  #ask(ask: Ask): Promise<GenerationStatistics | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw this.#closed;
      const call = this.#key++;
      this.#calls.set(call, { resolve, reject });
      this.#send({ kind: 'ask', call, ask });
    });
  }

  #send(message: ToEngine): void {
    this.#worker.postMessage(message);
  }

  #receive(message: FromEngine): void {
    if (message.kind === 'news') this.#deliver(message.news);
    if (message.kind === 'answer') this.#calls.get(message.call)?.resolve(message.value);
    if (message.kind === 'refused') this.#calls.get(message.call)?.reject(new EngineError(message.message));
    if (message.kind === 'answer' || message.kind === 'refused') this.#calls.delete(message.call);
  }

  #deliver({ streamed, finished, failed }: StepNews): void {
    streamed.keys.forEach((key, index) => {
      const flight = this.#inFlight.get(key);
      try {
        flight?.request.onTokens?.(
          Int32Array.of(streamed.ids[index]!),
          Float32Array.of(streamed.logprobs[index]!),
        );
      } catch (error) {
        flight?.reject(error);
        this.#send({ kind: 'abort', key });
      }
    });
    for (const { key, result } of finished) this.#inFlight.get(key)?.resolve(result);
    for (const { key, message } of failed) this.#inFlight.get(key)?.reject(new EngineError(message));
  }

  #end(error: EngineError): void {
    this.#closed ??= error;
    for (const flight of this.#inFlight.values()) flight.reject(error);
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}

function emptyReply(request: GenerateRequest): GenerateResult {
  return {
    ids: new Int32Array(),
    logprobs: new Float32Array(),
    finish: 'abort',
    versions: [],
    promptTokens: request.prompt.length,
    cachedTokens: 0,
  };
}

/** The embedded trainer: the `Trainer` port on this machine's CPU, computed in a separate thread. */
import { resolve } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { ConfigError, EngineError, TrainerError } from '../../errors.ts';
import type { WeightUpdate } from '../../inference/server.ts';
import { startWorker } from '../../lib/worker.ts';
import type {
  AdamOptions,
  AdapterWeights,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
} from '../../training/trainer.ts';
import type { ImageRef } from '../../types.ts';
import { arithmeticOf } from '../arithmetic.ts';
import { readImages } from '../vision/read-images.ts';
import type { CallName, ErrorMessage, FromTrainer, TrainerCalls, TrainerSetup } from './trainer-messages.ts';
import type { TrainingOptions } from './training-options.ts';

export interface TrainerOptions extends TrainingOptions {
  /** Threads that compute; default the machine's parallelism. */
  readonly threads?: number;
  /** Forces one build of the kernels; default native where it can be built. */
  readonly kernels?: 'native' | 'wasm';
  /** Receives one line when kernels are built or cannot be. */
  readonly log?: (line: string) => void;
  /** The bytes of an image that a row shows. */
  readonly readImage?: ((image: ImageRef) => Promise<Uint8Array>) | undefined;
}

/** Opens a model folder for training or scoring; resolves when its weights are in memory. */
export function openTrainer(options: TrainerOptions): Promise<EmbeddedTrainer> {
  const { threads, kernels, log, readImage: _, ...training } = options;
  const setup: TrainerSetup = {
    training: { ...training, model: resolve(training.model) },
    threads,
    kernels,
  };
  const worker = startWorker('./trainer-worker', import.meta.url, { workerData: setup });
  return new Promise((opened, failed) => {
    worker.once('error', failed);
    worker.once('exit', () => failed(new TrainerError('the trainer thread ended before it was ready')));
    worker.on('message', (message: FromTrainer) => {
      if (message.kind === 'log') log?.(message.line);
      if (message.kind === 'broken') failed(toError(message.error));
      if (message.kind === 'ready') opened(new EmbeddedTrainer(worker, options, message));
    });
  });
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export class EmbeddedTrainer implements Trainer {
  readonly can: Trainer['can'];
  readonly publishes = 'memory';
  readonly arithmetic: string;
  /** One line: which kernels, for which CPU, with how many threads. */
  readonly description: string;
  readonly #worker: Worker;
  readonly #readImage: TrainerOptions['readImage'];
  readonly #waiting = new Map<number, Waiting>();
  #calls = 0;
  #ended: Error | undefined;

  constructor(
    worker: Worker,
    options: TrainerOptions,
    { description, sees }: Extract<FromTrainer, { kind: 'ready' }>,
  ) {
    this.#worker = worker;
    this.#readImage = options.readImage;
    this.arithmetic = arithmeticOf(options.weights);
    this.description = description;
    this.can = new Set([
      'entropy',
      'sumSquares',
      'temperature',
      'prefix',
      ...(options.valueHead ? (['value'] as const) : []),
      ...(options.lora ? (['lora'] as const) : []),
      ...(sees ? (['images'] as const) : []),
    ]);
    worker.removeAllListeners('error').removeAllListeners('exit');
    worker.on('message', (message: FromTrainer) => this.#receive(message));
    worker.on('error', (error) => this.#end(new TrainerError(`the trainer thread failed: ${error.message}`)));
    worker.on('exit', () => this.#end(new TrainerError('the trainer is closed')));
    worker.unref();
  }

  async score(rows: readonly Row[], options: ScoreOptions): Promise<Outputs> {
    return this.#run('score', rows, options);
  }

  async forward(rows: readonly Row[], options: ScoreOptions): Promise<Pass> {
    const { pass, outputs } = await this.#run('forward', rows, options);
    return {
      outputs,
      backward: (gradients) => this.#call('backward', { pass, gradients }),
      discard: () => this.#call('discard', { pass }),
    };
  }

  optimStep(adam: AdamOptions): Promise<{ readonly gradNorm: number; readonly skipped: boolean }> {
    return this.#call('optimStep', adam);
  }

  async publish(version: number): Promise<WeightUpdate> {
    return { kind: 'memory', version, tensors: await this.#call('publish', undefined) };
  }

  adapter(): Promise<AdapterWeights> {
    return this.#call('adapter', undefined);
  }

  save(directory: string): Promise<void> {
    return this.#call('save', { directory: resolve(directory) });
  }

  load(directory: string): Promise<void> {
    return this.#call('load', { directory: resolve(directory) });
  }

  /** The most bytes the heap ever held. */
  async peakBytes(): Promise<number> {
    return (await this.#call('memory', undefined)).peakBytes;
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    await this.#call('close', undefined);
    await this.#worker.terminate();
  }

  async #run<K extends 'score' | 'forward'>(
    call: K,
    rows: readonly Row[],
    { signal, ...options }: ScoreOptions,
  ): Promise<TrainerCalls[K]['reply']> {
    signal?.throwIfAborted();
    const abandoned = new Int32Array(new SharedArrayBuffer(4));
    const abandon = () => Atomics.store(abandoned, 0, 1);
    signal?.addEventListener('abort', abandon, { once: true });
    try {
      const shown = rows.flatMap((row) => row.images ?? []).map(({ image }) => image);
      const fail = (message: string) => new TrainerError(message);
      const images = shown.length > 0 ? await readImages(shown, this.#readImage, fail) : [];
      return await this.#call(call, { rows, options, images, abandoned });
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abandon);
    }
  }

  #call<K extends CallName>(call: K, request: TrainerCalls[K]['request']): Promise<TrainerCalls[K]['reply']> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#worker.ref();
      this.#worker.postMessage({ id, call, request });
    });
  }

  #receive(message: FromTrainer): void {
    if (message.kind !== 'reply' && message.kind !== 'failed') return;
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (message.kind === 'reply') waiting?.resolve(message.value);
    else waiting?.reject(toError(message.error));
  }

  #end(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
  }
}

function toError({ name, message }: ErrorMessage): Error {
  if (name === 'ConfigError') return new ConfigError(message);
  if (name === 'EngineError') return new EngineError(message);
  if (name === 'TrainerError') return new TrainerError(message);
  return new TrainerError(`the trainer failed: ${name}: ${message}`);
}

/**
 * The life of the engine's thread: takes messages, steps while there is work, tells what each step made. Steps are
 * separate turns of the event loop, so a message waits for one step at most.
 */
import { EngineError } from '../../errors.ts';
import type { WeightUpdate } from '../../inference/server.ts';
import type { GenerationStatistics, Generator } from './generator.ts';
import type { Ask, FromEngine, ToEngine } from './messages.ts';
import type { PlainRequest } from './request.ts';
import { diskWeights, memoryWeights } from './weight-sources.ts';

export class EngineLoop {
  readonly #generator: Generator;
  readonly #say: (message: FromEngine) => void;
  readonly #close: () => Promise<void>;
  /** `draining`: what is in flight ends, what arrives is held; `paused`: nothing moves. */
  #state: 'running' | 'draining' | 'paused' = 'running';
  #held: { readonly key: number; readonly request: PlainRequest }[] = [];
  /** Calls of pause('wait') that have not been answered. */
  #drains: (() => void)[] = [];
  #ticking = false;

  constructor(generator: Generator, say: (message: FromEngine) => void, close: () => Promise<void>) {
    this.#generator = generator;
    this.#say = say;
    this.#close = close;
  }

  receive(message: ToEngine): void {
    if (message.kind === 'generate') this.#accept(message.key, message.request);
    else if (message.kind === 'abort') this.#abort(message.key);
    else {
      const { call, ask } = message;
      this.#answer(ask).then(
        (value) => this.#say({ kind: 'answer', call, value }),
        (error: Error) => this.#say({ kind: 'refused', call, message: error.message }),
      );
    }
  }

  #accept(key: number, request: PlainRequest): void {
    if (this.#state === 'draining') this.#held.push({ key, request });
    else this.#add(key, request);
    this.#wake();
  }

  #add(key: number, request: PlainRequest): void {
    try {
      this.#generator.add(key, request);
    } catch (error) {
      const failed = [{ key, message: (error as Error).message }];
      const streamed = { keys: [], ids: [], logprobs: [] };
      this.#say({ kind: 'news', news: { streamed, finished: [], failed } });
    }
  }

  #abort(key: number): void {
    const held = this.#held.find((request) => request.key === key);
    if (held) {
      this.#held = this.#held.filter((request) => request !== held);
      this.#add(key, held.request);
    }
    this.#generator.abort(key);
    this.#tell();
    this.#settleDrain();
  }

  async #answer(ask: Ask): Promise<GenerationStatistics | undefined> {
    if (ask.kind === 'statistics') return this.#generator.statistics();
    if (ask.kind === 'pause') await this.#pause(ask.mode);
    else if (ask.kind === 'resume') this.#stand('running');
    else if (ask.kind === 'update') this.#update(ask.weights);
    else if (ask.kind === 'flush') this.#generator.flush();
    else {
      this.#stand('paused');
      await this.#close();
    }
    return undefined;
  }

  async #pause(mode: 'abort' | 'wait' | 'keep'): Promise<void> {
    if (mode === 'wait') {
      if (this.#state === 'running') this.#state = 'draining';
      if (this.#state === 'draining') {
        const drained = new Promise<void>((resolve) => this.#drains.push(resolve));
        this.#settleDrain();
        await drained;
      }
      return;
    }
    if (mode === 'abort') this.#generator.abortAll();
    this.#tell();
    this.#stand('paused');
  }

  #settleDrain(): void {
    if (this.#state === 'draining' && this.#generator.pending === 0) this.#stand('paused');
  }

  /** Enters a state that holds no requests back from the generator, and answers who waited for the drain. */
  #stand(state: 'running' | 'paused'): void {
    this.#state = state;
    const held = this.#held;
    this.#held = [];
    for (const { key, request } of held) this.#accept(key, request);
    const drains = this.#drains;
    this.#drains = [];
    for (const settle of drains) settle();
    this.#wake();
  }

  #update(weights: WeightUpdate): void {
    const { version } = weights;
    if (!Number.isSafeInteger(version) || version < 0) {
      throw new EngineError(`update: version is ${version}; an integer from 0 on is needed`);
    }
    const { config } = this.#generator;
    if (weights.kind === 'memory') {
      this.#generator.updateWeights(version, memoryWeights(weights.tensors, config));
    } else if (weights.kind === 'disk') {
      this.#generator.updateWeights(version, diskWeights(weights.path, config));
    } else if (weights.kind === 'lora') {
      this.#generator.updateAdapter(version, weights.name, weights.path);
    } else {
      throw new EngineError(`update: kind ${weights.kind} is not one of memory, disk, lora (see \`can\`)`);
    }
  }

  #wake(): void {
    if (this.#ticking) return;
    this.#ticking = true;
    setImmediate(() => this.#tick());
  }

  #tick(): void {
    if (this.#state === 'paused' || !this.#generator.busy) {
      this.#ticking = false;
      return;
    }
    this.#generator.step();
    this.#tell();
    this.#settleDrain();
    setImmediate(() => this.#tick());
  }

  #tell(): void {
    const news = this.#generator.takeNews();
    if (news) this.#say({ kind: 'news', news });
  }
}

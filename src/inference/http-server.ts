/** What the clients of all servers at a URL have in common; sglang.ts and vllm.ts say how each is spoken to. */
import { ConfigError, EngineError } from '../errors.ts';
import { Door } from '../lib/door.ts';
import type { HttpServerOptions } from './engine.ts';
import { type CallOptions, HttpClient } from './http/client.ts';
import type { HttpReply } from './http/reply-reader.ts';
import { type Began, emptyPartial } from './http-reply.ts';
import { keepPartial } from './keep-partial.ts';
import { LoadedAdapters } from './loaded-adapters.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  ServerLoad,
  WeightUpdate,
} from './server.ts';

type Update<Kind extends WeightUpdate['kind']> = Extract<WeightUpdate, { kind: Kind }>;
type PauseMode = 'abort' | 'wait' | 'keep';

/** One request as the server wants it. */
interface Asked {
  readonly path: string;
  /** Called again where it must be sent again: thousands wait at once, so what is sent is not kept. */
  call(): Pick<CallOptions, 'body' | 'headers'>;
  /** What ends it on the server. */
  readonly abort: { readonly path: string; readonly body: object };
  read(reply: Buffer): GenerateResult;
  /** The same from the events of a stream. */
  readEvents(events: AsyncIterable<unknown>): Promise<GenerateResult>;
}

/** A server that hangs does not hold up the end of a run. */
const CLOSE_MS = 2000;

export abstract class HttpServer implements InferenceServer {
  readonly url: string;
  /** Set by the check at start. */
  abstract logprobs: ServerInfo['logprobs'];
  logprobsAfterPenalties = false;
  protected readonly http: HttpClient;
  protected readonly options: HttpServerOptions;
  protected readonly adapters = new LoadedAdapters();
  /** Of the weights that the server has. */
  protected version: number;
  /** Whole weights were sent: text of the server that is no version means that it was restarted. */
  protected updated = false;
  /** Its replies say which tokens are of which version; seen in them. */
  protected saysSpans = false;
  readonly #door = new Door();
  #tries = 0;

  constructor(options: HttpServerOptions) {
    this.options = options;
    this.http = new HttpClient(options.url, options);
    this.url = this.http.url;
    this.version = options.version ?? 0;
  }

  abstract info(): Promise<ServerInfo>;
  abstract load(signal?: AbortSignal): Promise<ServerLoad | undefined>;
  /** Version of the weights as the server states it, where it does. */
  abstract statedVersion(): Promise<string | undefined>;
  /** The server's own ids of a text, or undefined where it has no tokenizer. */
  abstract tokenize(text: string): Promise<readonly number[] | undefined>;
  abstract checksum(): Promise<string | undefined>;

  /** Throws where the server does not answer. */
  protected abstract reach(signal?: AbortSignal): Promise<unknown>;
  protected abstract sample(request: GenerateRequest): Promise<GenerateResult>;
  protected abstract askToPause(mode: PauseMode): Promise<void>;
  protected abstract askToResume(): Promise<void>;
  protected abstract askToSleep(): Promise<void>;
  protected abstract askToWake(): Promise<void>;
  protected abstract loadFromDisk(weights: Update<'disk'>): Promise<void>;
  protected abstract checkPushed(weights: Update<'pushed'>): Promise<void>;
  protected abstract loadAdapter(name: string, path: string): Promise<void>;
  protected abstract unloadAdapter(name: string, timeoutMs?: number): Promise<void>;

  async ready(signal?: AbortSignal): Promise<boolean> {
    try {
      await this.reach(signal);
      return true;
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      signal?.throwIfAborted();
      return false;
    }
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    try {
      await this.#door.enter(request.signal);
    } catch {
      return emptyPartial(request); // aborted before the door
    }
    try {
      return await this.sample(request);
    } catch (error) {
      if (request.signal?.aborted && !(error instanceof EngineError)) return emptyPartial(request);
      throw error;
    } finally {
      this.#door.leave();
    }
  }

  /** `wait` lasts as long as the longest reply. */
  async pause(mode: PauseMode): Promise<void> {
    if (mode === 'wait') await this.#shutDoor();
    await this.#openIfFailed(this.askToPause(mode));
  }

  /** Waiting requests are released even if the server is gone: they fail fast and the gateway retries them elsewhere. */
  async resume(): Promise<void> {
    try {
      await this.askToResume();
    } finally {
      this.#door.open();
    }
  }

  /** Frees the GPU once what runs has ended; later requests wait until `wake`. */
  async sleep(): Promise<void> {
    await this.#shutDoor();
    await this.#openIfFailed(this.askToSleep());
  }

  async wake(): Promise<void> {
    try {
      await this.askToWake();
    } finally {
      this.#door.open();
    }
  }

  async update(weights: WeightUpdate): Promise<void> {
    if (weights.kind === 'disk') await this.loadFromDisk(weights);
    else if (weights.kind === 'pushed') await this.checkPushed(weights);
    else if (weights.kind === 'lora') await this.#exchangeAdapter(weights);
    else
      throw new EngineError(
        `${this.url}: this server takes weights by disk, lora or pushed, not ${weights.kind}`,
      );
    this.version = weights.version;
    if (weights.kind === 'lora') return;
    this.updated = true;
    this.adapters.weightsCame();
  }

  /** What was loaded under names of this run is unloaded: a later run begins with the same ones. */
  async close(): Promise<void> {
    await this.adapters.unloadAll((name) => this.unloadAdapter(name, CLOSE_MS));
    await this.http.close();
  }

  protected get seeds(): boolean {
    return this.options.seeds ?? true;
  }

  protected get updateTimeoutMs(): number {
    return this.options.updateTimeoutMs ?? 600_000;
  }

  /** A try elsewhere or again never meets its forerunner. */
  protected nextId({ id }: GenerateRequest): string {
    return `${id}.${++this.#tries}.`;
  }

  protected began(request: GenerateRequest): Began {
    return { before: this.version, adapter: this.adapters.meantBy(request) };
  }

  protected ask({ signal, onTokens, place }: GenerateRequest, asked: Asked): Promise<GenerateResult> {
    const { path, call, abort } = asked;
    const rank = place && place.turn > 1 ? 1 : 2; // a trajectory that has begun goes before one that has not
    const askToAbort = (timeoutMs: number) => this.http.tell(abort.path, { body: abort.body, timeoutMs });
    if (onTokens) {
      const closing = new AbortController();
      const events = this.http.events(path, { ...call(), rank, signal: closing.signal });
      return keepPartial(asked.readEvents(events), signal, askToAbort, (reason) => closing.abort(reason));
    }
    const read = (reply: HttpReply) => asked.read(this.http.accept(path, reply));
    const exchange = this.http.start(path, call, read, { rank });
    return keepPartial(exchange.reply, signal, askToAbort, (reason) => exchange.cancel(reason));
  }

  async #shutDoor(): Promise<void> {
    this.#door.shut();
    await this.#door.empty();
  }

  async #openIfFailed(asked: Promise<void>): Promise<void> {
    try {
      await asked;
    } catch (error) {
      this.#door.open();
      throw error;
    }
  }

  async #exchangeAdapter({ name, path, version }: Update<'lora'>): Promise<void> {
    await this.adapters.load(name, version, {
      load: () => this.loadAdapter(name, path),
      unload: (old) => this.unloadAdapter(old),
    });
  }
}

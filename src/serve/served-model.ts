import { randomUUID } from 'node:crypto';
import type { ChatFormat } from '../chat/format.ts';
import type { Tokenizer } from '../chat/tokenizer.ts';
import { EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, InferenceServer, ServerInfo } from '../inference/server.ts';
import { BadRequest } from './bad-request.ts';

/** How an engine stands; what `/v1/loads` and `rollcall servers` show. */
export interface ServedLoad {
  readonly waiting: number;
  readonly running: number;
  readonly blocksHeld: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly cachedPromptTokens: number;
  readonly computedPromptTokens: number;
  readonly sampledTokens: number;
  readonly preemptions: number;
}

/** An engine with what only it can say beside the port. */
export interface ServedEngine extends InferenceServer {
  stats(): Promise<ServedLoad>;
  flush(): Promise<void>;
}

export interface ServedModelOptions {
  readonly server: ServedEngine;
  /** Folder of the model. */
  readonly model: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly tokenizer: Tokenizer;
  /** End a reply whatever the request says. */
  readonly eosIds: readonly number[];
  /** Undefined: the model has no chat template. */
  readonly format: ChatFormat | undefined;
}

/** Adapters that are kept; a further one takes the place of one that was unloaded. */
const MOST_ADAPTERS = 16;

/** A model at its doors: what runs, by the id its caller knows, and adapters by the names callers gave them. */
export class ServedModel {
  readonly server: ServedEngine;
  readonly model: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly tokenizer: Tokenizer;
  readonly eosIds: readonly number[];
  readonly format: ChatFormat | undefined;
  readonly #running = new Map<string, AbortController>();
  readonly #slots = new Map<string, string>();
  readonly #freeSlots = Array.from({ length: MOST_ADAPTERS }, (_, at) => `adapter-${at}`).reverse();
  #paused = false;

  constructor(options: ServedModelOptions) {
    this.server = options.server;
    this.model = options.model;
    this.config = options.config;
    this.tokenizer = options.tokenizer;
    this.eosIds = options.eosIds;
    this.format = options.format;
  }

  get running(): number {
    return this.#running.size;
  }

  get paused(): boolean {
    return this.#paused;
  }

  get adapters(): readonly string[] {
    return [...this.#slots.keys()];
  }

  info(): Promise<ServerInfo> {
    return this.server.info();
  }

  /** Runs until it ends, is aborted by its id, or its caller is gone. */
  async generate(
    request: Omit<GenerateRequest, 'id'> & { readonly id?: string | undefined },
    gone: AbortSignal,
  ): Promise<GenerateResult> {
    const id = request.id ?? randomUUID();
    if (this.#running.has(id)) throw new BadRequest(`Duplicate request ID detected: ${id}`);
    const abort = new AbortController();
    const onGone = () => abort.abort();
    gone.addEventListener('abort', onGone, { once: true });
    if (gone.aborted) onGone();
    this.#running.set(id, abort);
    try {
      const { adapter, ...rest } = request;
      return await this.server.generate({
        ...rest,
        id,
        signal: abort.signal,
        adapter: typeof adapter === 'string' ? this.#slotOf(adapter) : null,
      });
    } catch (error) {
      if (error instanceof EngineError && (await this.server.ready())) throw new BadRequest(error.message);
      throw error;
    } finally {
      this.#running.delete(id);
      gone.removeEventListener('abort', onGone);
    }
  }

  /** By prefix, as SGLang does. */
  abort(prefix: string): void {
    for (const [id, controller] of this.#running) if (id.startsWith(prefix)) controller.abort();
  }

  async pause(mode: 'abort' | 'keep'): Promise<void> {
    this.#paused = true;
    await this.server.pause(mode);
  }

  async resume(): Promise<void> {
    await this.server.resume();
    this.#paused = false;
  }

  async update(path: string, version: string | undefined): Promise<void> {
    const given = version === undefined ? Number.NaN : Number(version);
    const next = Number.isSafeInteger(given) ? given : (await this.info()).version + 1;
    await this.server.update({ kind: 'disk', version: next, path });
  }

  /** A name that ends in `@12` is of version 12. */
  async loadAdapter(name: string, path: string): Promise<void> {
    if (this.#slots.has(name)) throw new BadRequest(`adapter ${name} is already loaded`);
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new BadRequest(`${MOST_ADAPTERS} adapters are loaded; unload one`);
    const version = Number(/@(\d+)$/.exec(name)?.[1] ?? (await this.info()).version);
    try {
      await this.server.update({ kind: 'lora', version, name: slot, path });
    } catch (error) {
      this.#freeSlots.push(slot);
      throw error;
    }
    this.#slots.set(name, slot);
  }

  unloadAdapter(name: string): void {
    const slot = this.#slotOf(name);
    this.#slots.delete(name);
    this.#freeSlots.push(slot);
  }

  #slotOf(name: string): string {
    const slot = this.#slots.get(name);
    if (slot !== undefined) return slot;
    throw new BadRequest(`adapter ${name} is not loaded; loaded: ${this.adapters.join(', ') || 'none'}`);
  }
}

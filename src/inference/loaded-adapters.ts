import { HttpStatusError } from './http/client.ts';
import type { GenerateRequest } from './server.ts';

type Unload = (name: string) => Promise<unknown>;

/**
 * Adapters of one server, one name per version (`policy@12`): a request says which it is sampled with, so its version
 * is exact without a pause. The newest two stay loaded, since requests of the older may still run.
 */
export class LoadedAdapters {
  readonly #versions = new Map<string, number>();
  #current: string | undefined;

  /** The adapter that a request means; undefined is the model itself. */
  meantBy({ adapter }: Pick<GenerateRequest, 'adapter'>): string | undefined {
    return adapter === null ? undefined : (adapter ?? this.#current);
  }

  /** Whole weights are newer than any adapter: requests that name none mean the model again. */
  weightsCame(): void {
    this.#current = undefined;
  }

  versionOf(name: string | undefined): number | undefined {
    return name === undefined ? undefined : this.#versions.get(name);
  }

  async load(
    name: string,
    version: number,
    calls: { load(): Promise<unknown>; unload: Unload },
  ): Promise<void> {
    if (this.#versions.has(name)) await this.#unload(name, calls.unload);
    try {
      await calls.load();
    } catch (error) {
      if (!isLoadedAlready(error)) throw error;
      await calls.unload(name); // a run before this one left it
      await calls.load();
    }
    this.#versions.set(name, version);
    this.#current = name;
    for (const old of [...this.#versions.keys()].slice(0, -2)) await this.#unload(old, calls.unload);
  }

  async unloadAll(unload: Unload): Promise<void> {
    await Promise.all([...this.#versions.keys()].map((name) => this.#unload(name, unload)));
  }

  /** A restarted server has none of them: that is not a reason to refuse new weights. */
  async #unload(name: string, unload: Unload): Promise<void> {
    this.#versions.delete(name);
    await unload(name).catch(() => {});
  }
}

function isLoadedAlready(error: unknown): boolean {
  return error instanceof HttpStatusError && /already (been )?loaded/.test(error.text);
}

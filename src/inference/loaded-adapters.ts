/**
 * Adapters of one server, one name per version (`policy@12`): a request says which it is sampled with, so its version
 * is exact without a pause. The newest two stay loaded, since requests of the older may still run.
 */
export class LoadedAdapters {
  readonly #versions = new Map<string, number>();
  #current: string | undefined;

  /** What requests use that name none. */
  get current(): string | undefined {
    return this.#current;
  }

  versionOf(name: string | undefined): number | undefined {
    return name === undefined ? undefined : this.#versions.get(name);
  }

  async load(
    name: string,
    version: number,
    calls: { load(): Promise<unknown>; unload(name: string): Promise<unknown> },
  ): Promise<void> {
    if (this.#versions.has(name)) await this.#unload(name, calls.unload);
    await calls.load();
    this.#versions.set(name, version);
    this.#current = name;
    for (const old of [...this.#versions.keys()].slice(0, -2)) await this.#unload(old, calls.unload);
  }

  /** A server that was started anew has none of them: that is no reason to refuse new weights. */
  async #unload(name: string, unload: (name: string) => Promise<unknown>): Promise<void> {
    this.#versions.delete(name);
    await unload(name).catch(() => {});
  }
}

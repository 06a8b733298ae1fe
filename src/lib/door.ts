/** Requests go in and out; while the door is shut they wait before it, and those inside can be waited for. */
export class Door {
  #inside = 0;
  #shut = false;
  readonly #waiting = new Set<() => void>();
  readonly #emptied = new Set<() => void>();

  get inside(): number {
    return this.#inside;
  }

  /** Who went in goes out by `leave`. A signal that aborts before the door opens rejects with its reason. */
  async enter(signal?: AbortSignal): Promise<void> {
    while (this.#shut) await this.#untilOpen(signal);
    this.#inside++;
  }

  leave(): void {
    this.#inside--;
    if (this.#inside === 0) for (const tell of take(this.#emptied)) tell();
  }

  shut(): void {
    this.#shut = true;
  }

  open(): void {
    this.#shut = false;
    for (const tell of take(this.#waiting)) tell();
  }

  async empty(): Promise<void> {
    while (this.#inside > 0) await new Promise<void>((resolve) => this.#emptied.add(resolve));
  }

  #untilOpen(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#waiting.delete(onOpen);
        reject(signal?.reason);
      };
      const onOpen = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      this.#waiting.add(onOpen);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }
}

function take(set: Set<() => void>): (() => void)[] {
  const all = [...set];
  set.clear();
  return all;
}

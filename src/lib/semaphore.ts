/** At most `slots` pieces of work at once; the rest wait in the order in which they came. */
export interface Semaphore {
  /** Rejects with the signal's reason if it aborts before the work begins. */
  run<R>(work: () => Promise<R>, signal?: AbortSignal): Promise<R>;
}

export function semaphore(slots: number): Semaphore {
  let free = slots;
  const waiting = new Set<() => void>();

  function take(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiting.delete(go);
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      waiting.add(go);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  return {
    run: async (work, signal) => {
      signal?.throwIfAborted();
      if (free > 0) free--;
      else await take(signal);
      try {
        return await work();
      } finally {
        const [next] = waiting;
        if (next) {
          waiting.delete(next);
          next();
        } else free++;
      }
    },
  };
}

/**
 * Time, passed in. `now` is in milliseconds since the clock began; a timer fires once and can be cancelled.
 * Tests hand in a virtual clock (`rollcall/testing`), on which an hour passes in a millisecond.
 */
export interface Clock {
  now(): number;
  /** Calls `fire` after `milliseconds`; the returned function cancels. */
  timer(milliseconds: number, fire: () => void): () => void;
}

/** The clock of the machine. */
export function realClock(): Clock {
  const began = performance.now();
  return {
    now: () => performance.now() - began,
    timer: (milliseconds, fire) => {
      if (milliseconds === Number.POSITIVE_INFINITY) return () => {};
      const handle = setTimeout(fire, Math.min(milliseconds, LONGEST_TIMER_MS));
      return () => clearTimeout(handle);
    },
  };
}

/** Node fires a longer timer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Resolves after `milliseconds`, or rejects with the signal's reason when it aborts first. */
export function sleep(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.timer(milliseconds, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

import type { Clock } from './clock.ts';

/** Why a signal made by `withTimeLimit` aborted. */
export class TimeLimitReached extends Error {
  readonly milliseconds: number;
  constructor(milliseconds: number) {
    super(`took longer than ${milliseconds} ms`);
    this.name = 'TimeLimitReached';
    this.milliseconds = milliseconds;
  }
}

/**
 * Runs `work` with a signal that aborts after `milliseconds` or with `signal`, and settles then even if
 * `work` does not listen: what it still does goes unheard. No timer or listener is left behind.
 */
export async function withTimeLimit<R>(
  work: (signal: AbortSignal) => R | Promise<R>,
  { milliseconds, clock, signal }: { milliseconds: number; clock: Clock; signal?: AbortSignal | undefined },
): Promise<R> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const forward = () => controller.abort(signal?.reason);
  signal?.addEventListener('abort', forward, { once: true });
  const cancel = clock.timer(milliseconds, () => controller.abort(new TimeLimitReached(milliseconds)));
  try {
    return await new Promise<R>((resolve, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason), { once: true });
      Promise.resolve()
        .then(() => work(controller.signal))
        .then(resolve, reject);
    });
  } finally {
    cancel();
    signal?.removeEventListener('abort', forward);
  }
}

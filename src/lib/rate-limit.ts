import { type Clock, sleep } from './clock.ts';

/** A bucket that starts full, holds one second's worth and fills steadily; callers wait in the order they came. */
export function rateLimit(perSecond: number, clock: Clock): (signal?: AbortSignal) => Promise<void> {
  const intervalMs = 1000 / perSecond;
  let nextFree = -1000; // a full bucket: a second's worth may go at once
  return async (signal) => {
    nextFree = Math.max(nextFree, clock.now() - 1000) + intervalMs;
    const wait = nextFree - clock.now();
    if (wait > 0) await sleep(clock, wait, signal);
  };
}

/** Limits on the requests to a service. One implementation for tools, judges and simulated users. */
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { semaphore } from '../lib/semaphore.ts';

/**
 * A bucket that starts full and fills steadily; takers are served in order of arrival. A request for more than
 * the bucket holds waits until that much has flowed in, and the requests behind it wait until the debt is paid.
 */
export function tokenBucket({
  capacity,
  perSecond,
  clock,
}: {
  readonly capacity: number;
  readonly perSecond: number;
  readonly clock: Clock;
}): (amount: number, signal?: AbortSignal) => Promise<void> {
  let level = capacity;
  let at = clock.now();
  return async (amount, signal) => {
    signal?.throwIfAborted();
    const now = clock.now();
    level = Math.min(capacity, level + ((now - at) / 1000) * perSecond) - amount;
    at = now;
    if (level >= -1e-9) return;
    await sleep(clock, (-level / perSecond) * 1000, signal).catch((reason: unknown) => {
      level += amount; // not used after all
      throw reason;
    });
  };
}

/** Limits calls per second, with bursts of up to one second's worth. */
export function rateLimit(perSecond: number, clock: Clock): (signal?: AbortSignal) => Promise<void> {
  const take = tokenBucket({ capacity: perSecond, perSecond, clock });
  return (signal) => take(1, signal);
}

/** How many requests and tokens a minute a service may get. */
export interface RequestLimits {
  /** Requests at the same time. */
  readonly concurrency?: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
}

/** Lets requests through as fast as their limits allow. */
export interface RequestLimiter {
  /** Runs `request` when all limits allow it; `tokens` is what it is expected to use. */
  run<R>(
    request: () => Promise<R>,
    options?: { readonly tokens?: number; readonly signal?: AbortSignal },
  ): Promise<R>;
}

/** A limiter that all users of one service share. */
export function requestLimiter(limits: RequestLimits, clock: Clock = realClock()): RequestLimiter {
  const { concurrency = Number.POSITIVE_INFINITY, requestsPerMinute, tokensPerMinute } = limits;
  const slots = semaphore(concurrency);
  const perMinute = (amount: number | undefined) =>
    amount === undefined ? async () => {} : tokenBucket({ capacity: amount, perSecond: amount / 60, clock });
  const takeRequest = perMinute(requestsPerMinute);
  const takeTokens = perMinute(tokensPerMinute);
  return {
    run: (request, { tokens = 0, signal } = {}) =>
      slots.run(async () => {
        await takeRequest(1, signal);
        await takeTokens(tokens, signal);
        signal?.throwIfAborted();
        return request();
      }, signal),
  };
}

const byService = new Map<string, RequestLimiter>();

/**
 * The limiter of a service that configuration names. Tools and simulated users that call the same host with the same
 * limits share one limiter.
 */
export function serviceLimiter(url: string, limits: RequestLimits): RequestLimiter {
  const { concurrency, requestsPerMinute, tokensPerMinute } = limits;
  const key = JSON.stringify([new URL(url).origin, concurrency, requestsPerMinute, tokensPerMinute]);
  const known = byService.get(key) ?? requestLimiter(limits);
  byService.set(key, known);
  return known;
}

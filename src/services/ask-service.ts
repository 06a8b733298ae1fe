/** A question to a service over HTTP, in JSON: sent within its limits, and again when the failure may be temporary. */
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import type { RequestLimiter } from './rate-limit.ts';

export interface ServiceOptions {
  /** Time limit of one try. */
  readonly timeoutMs: number;
  /** Tries after the first. */
  readonly retries: number;
  /** Before the next try; `attempt` counts from 0. */
  readonly pauseMs: (attempt: number) => number;
  readonly signal: AbortSignal;
  readonly limiter?: RequestLimiter | undefined;
  /** What a request counts against tokens per minute. */
  readonly tokens?: number;
  readonly clock?: Clock | undefined;
}

/** The service stayed down, or busy, through all tries. A refusal is another error, and is not tried again. */
export class ServiceDown extends Error {
  constructor(url: string, cause: unknown) {
    super(`${url} does not answer: ${(cause as Error).message}`, { cause });
    this.name = 'ServiceDown';
  }
}

class Refused extends Error {}

export async function askService(url: string, body: object, options: ServiceOptions): Promise<unknown> {
  const { retries, pauseMs, signal, limiter, tokens = 0, clock = realClock() } = options;
  for (let attempt = 0; ; attempt++) {
    try {
      const request = () => post(url, body, options);
      return limiter ? await limiter.run(request, { tokens, signal }) : await request();
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof Refused) throw cause;
      if (attempt >= retries) throw new ServiceDown(url, cause);
      await sleep(clock, pauseMs(attempt), signal);
    }
  }
}

async function post(url: string, body: object, { timeoutMs, signal }: ServiceOptions): Promise<unknown> {
  signal.throwIfAborted();
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  });
  if (response.ok) {
    return response.json().catch(() => {
      throw new Refused(`${url} answered something that is not JSON`);
    });
  }
  const { status } = response;
  const mayRecover = status >= 500 || status === 429 || status === 408;
  throw new (mayRecover ? Error : Refused)(`${url} answered ${status}`);
}

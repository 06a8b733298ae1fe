import { EngineError } from '../errors.ts';

/** How long a server has to hand over what it made of an aborted request, before the socket is closed on it. */
const GRACE_MS = 5000;

/**
 * Closing a socket loses what was sampled. So when `signal` aborts, the server is asked to abort the request and its
 * partial reply is awaited; only if that does not come is the socket closed, by the signal that `work` is given. Who aborts
 * with an EngineError gives the request up: the socket is closed at once, which ends it on the server too.
 */
export async function keepPartial<R>(
  signal: AbortSignal | undefined,
  askToAbort: (timeoutMs: number) => Promise<unknown>,
  work: (close: AbortSignal | undefined) => Promise<R>,
): Promise<R> {
  if (!signal) return work(undefined);
  signal.throwIfAborted(); // an aborted signal tells no new listener
  const close = new AbortController();
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    if (signal.reason instanceof EngineError) return close.abort(signal.reason);
    grace = setTimeout(() => close.abort(signal.reason), GRACE_MS);
    askToAbort(GRACE_MS).catch(() => close.abort(signal.reason));
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await work(close.signal);
  } finally {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(grace);
  }
}

import { EngineError } from '../errors.ts';

/** How long a server has to hand over what it made of an aborted request, before the socket is closed on it. */
const GRACE_MS = 5000;

/**
 * Closing a socket loses what was sampled. So when `signal` aborts, the server is asked to abort the request, and its
 * partial reply is awaited; only if that does not come is the socket closed. Who aborts with an EngineError gives the
 * request up: the socket is closed at once, which ends it on the server too. Returns what ends the watch.
 */
export function keepPartial(
  signal: AbortSignal | undefined,
  askToAbort: (timeoutMs: number) => Promise<unknown>,
  close: (reason: unknown) => void,
): () => void {
  if (!signal) return () => {};
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    if (signal.reason instanceof EngineError) return close(signal.reason);
    grace = setTimeout(() => close(signal.reason), GRACE_MS);
    askToAbort(GRACE_MS).catch(() => close(signal.reason));
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return () => {
    signal.removeEventListener('abort', onAbort);
    clearTimeout(grace);
  };
}

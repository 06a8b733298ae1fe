import { EngineError } from '../errors.ts';

/** How long a server may take to return what it sampled for an aborted request, before the socket is closed. */
const GRACE_MS = 5000;

/**
 * Waits for a reply. Closing a socket loses what was sampled, so when `signal` aborts, the server is asked to abort the
 * request, and its partial reply is awaited; only if that does not come is the socket closed, with an EngineError: such a
 * server is hung or gone. Who aborts with an EngineError gives the request up: the socket is closed at once, which ends it
 * on the server too.
 */
export async function keepPartial<R>(
  reply: Promise<R>,
  signal: AbortSignal | undefined,
  askToAbort: (timeoutMs: number) => Promise<unknown>,
  close: (reason: EngineError) => void,
): Promise<R> {
  let grace: NodeJS.Timeout | undefined;
  const late = () => close(new EngineError(`the server gave back nothing in ${GRACE_MS} ms after an abort`));
  const onAbort = () => {
    if (signal?.reason instanceof EngineError) return close(signal.reason);
    grace = setTimeout(late, GRACE_MS);
    askToAbort(GRACE_MS).catch((error) => close(error as EngineError));
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort(); // while something else was awaited: it tells no new listener
  try {
    return await reply;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    clearTimeout(grace);
  }
}

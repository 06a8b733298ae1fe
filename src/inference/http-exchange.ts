import type { Dispatcher } from 'undici';

export interface Exchanged {
  readonly status: number;
  readonly bytes: Buffer;
}

/**
 * One request and its whole reply, without the stream that `request()` of undici would make of it. A signal that aborts
 * settles it at once, also while it waits for a socket.
 */
export function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  signal: AbortSignal | undefined,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const chunks: Buffer[] = [];
    let status = 0;
    let running: Dispatcher.DispatchController | undefined;
    const onAbort = () => {
      running?.abort(signal?.reason as Error);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(options, {
      onRequestStart: (controller) => {
        running = controller;
        if (signal?.aborted) controller.abort(signal.reason as Error);
      },
      onResponseStart: (_controller, code) => {
        status = code;
      },
      onResponseData: (_controller, chunk) => {
        chunks.push(chunk);
      },
      onResponseEnd: () => {
        signal?.removeEventListener('abort', onAbort);
        resolve({ status, bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) });
      },
      onResponseError: (_controller, error) => {
        signal?.removeEventListener('abort', onAbort);
        reject(error);
      },
    });
  });
}

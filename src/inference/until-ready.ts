import { EngineError } from '../errors.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';

const POLL_MS = 500;
/** A server that is starting is not reported before this. */
const SILENT_MS = 5000;

/** Waits for a server that may still be loading its model; says after a few seconds that it does. */
export async function untilReady(
  server: { readonly url: string; ready(signal?: AbortSignal): Promise<boolean> },
  {
    seconds,
    log,
    signal,
    clock = realClock(),
  }: {
    readonly seconds: number;
    readonly log: (line: string) => void;
    readonly signal?: AbortSignal | undefined;
    readonly clock?: Clock;
  },
): Promise<void> {
  const began = clock.now();
  let hasTold = false;
  while (!(await server.ready(signal))) {
    const waited = clock.now() - began;
    if (waited >= seconds * 1000) {
      throw new EngineError(
        `${server.url} was not ready in ${seconds} s (servers.startSeconds); is it started, and is this its address?`,
      );
    }
    if (!hasTold && waited >= SILENT_MS) {
      log(`${server.url} does not answer yet; it is waited for up to ${seconds} s (servers.startSeconds)`);
      hasTold = true;
    }
    await sleep(clock, POLL_MS, signal);
  }
}

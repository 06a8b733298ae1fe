/** A session on a server: it lives as long as it is heard from. */
import type { Clock } from '../lib/clock.ts';
import { StateLost, type TinkerClient } from './client.ts';

/** Servers forget a session after minutes of silence (SkyRL: 300 s). */
const HEARTBEAT_MS = 10_000;

export class Session {
  readonly client: TinkerClient;
  readonly #clock: Clock;
  #id: Promise<string> | undefined;
  #cancel = () => {};
  #models = 0;

  constructor(client: TinkerClient, clock: Clock) {
    this.client = client;
    this.#clock = clock;
  }

  /** Opened when it is first needed, and again after `forget`. */
  id(): Promise<string> {
    this.#id ??= this.#open();
    return this.#id;
  }

  /** Counts what is made in the session, as the protocol asks. */
  next(): number {
    return this.#models++;
  }

  /** The server does not know it any more. */
  forget(): void {
    this.#id = undefined;
    this.#cancel();
  }

  close(): void {
    this.forget();
  }

  async #open(): Promise<string> {
    const body = { tags: ['rollcall'], user_metadata: {}, sdk_version: 'rollcall', type: 'create_session' };
    try {
      const { session_id: id } = await this.client.call<{ session_id: string }>('create_session', body);
      this.#beat(id);
      return id;
    } catch (error) {
      this.#id = undefined;
      throw error;
    }
  }

  #beat(id: string): void {
    const stop = new AbortController();
    const cancelTimer = this.#clock.timer(HEARTBEAT_MS, () => {
      const body = { session_id: id, type: 'session_heartbeat' };
      this.client.call('session_heartbeat', body, { signal: stop.signal }).then(
        () => stop.signal.aborted || this.#beat(id),
        (error: unknown) => {
          // A session that is gone is opened again by the call that misses it.
          if (!stop.signal.aborted && !(error instanceof StateLost)) this.#beat(id);
        },
      );
    });
    this.#cancel = () => {
      cancelTimer();
      stop.abort();
    };
  }
}

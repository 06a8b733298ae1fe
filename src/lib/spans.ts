import type { Span } from '../types.ts';
import type { Clock } from './clock.ts';

/** Where a trajectory's time goes: stretches of it, in the order in which they ended. */
export class Spans {
  readonly #clock: Clock;
  readonly #spans: Span[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  /** Without an end, the span ends now; without attributes, it has none. */
  add(
    span: Omit<Span, 'end' | 'attributes'> & { end?: number; attributes?: Span['attributes'] | undefined },
  ) {
    const { attributes, ...rest } = span;
    const ended = { ...rest, end: rest.end ?? this.now() };
    this.#spans.push(attributes ? { ...ended, attributes } : ended);
  }

  async timed<R>(span: Pick<Span, 'kind' | 'name' | 'turn'>, work: () => Promise<R>): Promise<R> {
    const start = this.now();
    try {
      return await work();
    } finally {
      this.add({ ...span, start });
    }
  }

  list(): Span[] {
    return [...this.#spans];
  }
}

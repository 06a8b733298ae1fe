import type { Span } from '../types.ts';
import type { Activity, Wait } from './activity.ts';
import type { Clock } from './clock.ts';

const STAGES = {
  wait: 'agent',
  generate: 'generate',
  tool: 'tool',
  interaction: 'user',
  reward: 'reward',
} as const satisfies Record<Span['kind'], Wait['stage']>;

/** Where a trajectory's time goes: stretches of it, in the order in which they ended. */
export class Spans {
  readonly #clock: Clock;
  readonly #trajectory: string;
  readonly #activity: Activity | undefined;
  readonly #spans: Span[] = [];

  /** While a stretch lasts, `activity` has it too. */
  constructor(clock: Clock, trajectory = '', activity?: Activity) {
    this.#clock = clock;
    this.#trajectory = trajectory;
    this.#activity = activity;
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
      return await this.during(span, work);
    } finally {
      this.add({ ...span, start });
    }
  }

  /** Tells that it goes on, for a span that is added when it has ended. */
  during<R>({ kind, name, turn }: Pick<Span, 'kind' | 'name' | 'turn'>, work: () => Promise<R>): Promise<R> {
    if (!this.#activity) return work();
    return this.#activity.during({ stage: STAGES[kind], name, turn, trajectory: this.#trajectory }, work);
  }

  list(): Span[] {
    return [...this.#spans];
  }
}

import type { End } from '../types.ts';
import type { Clock } from './clock.ts';

/** Something that a run waits for. */
export interface Wait {
  /** `step`: a part of the step itself. The others belong to one trajectory. */
  readonly stage: 'step' | 'agent' | 'generate' | 'tool' | 'user' | 'reward';
  /** Which tool, user, reward or part of the step. */
  readonly name: string;
  readonly trajectory?: string;
  readonly turn?: number;
  /** By the run's clock. */
  readonly since: number;
}

/** Attempts of the step that failed at one boundary, with one of them. */
export interface FailedAttempts {
  readonly boundary: Extract<End, { kind: 'failed' }>['boundary'];
  readonly message: string;
  readonly trajectory: string;
  readonly count: number;
}

/** What goes on in a run now: what it waits for, and which attempts of the step have failed. */
export class Activity {
  readonly #clock: Clock;
  readonly #waits = new Set<Wait>();
  #failed: { readonly trajectory: string; readonly end: End }[] = [];
  #step = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The step in progress. */
  get step(): number {
    return this.#step;
  }

  beginStep(step: number): void {
    this.#step = step;
    this.#failed = [];
  }

  async during<R>(wait: Omit<Wait, 'since'>, work: () => Promise<R>): Promise<R> {
    const begun = { ...wait, since: this.#clock.now() };
    this.#waits.add(begun);
    try {
      return await work();
    } finally {
      this.#waits.delete(begun);
    }
  }

  ended(trajectory: string, end: End): void {
    if (end.kind === 'failed') this.#failed.push({ trajectory, end });
  }

  /** Oldest first. */
  waits(): Wait[] {
    return [...this.#waits].sort((one, other) => one.since - other.since);
  }

  failures(): FailedAttempts[] {
    return groupFailures(this.#failed);
  }
}

/** Failed attempts, those of one boundary with messages alike together, each kind with its first. */
export function groupFailures(
  attempts: readonly { readonly trajectory: string; readonly end: End }[],
): FailedAttempts[] {
  const groups = new Map<string, FailedAttempts>();
  for (const { trajectory, end } of attempts) {
    if (end.kind !== 'failed') continue;
    const { boundary, message } = end;
    const key = `${boundary}: ${messageShape(message)}`;
    const known = groups.get(key) ?? { boundary, message, trajectory, count: 0 };
    groups.set(key, { ...known, count: known.count + 1 });
  }
  return [...groups.values()];
}

/** A message without what differs from case to case: numbers, quoted texts and paths. */
export function messageShape(message: string): string {
  return message
    .replaceAll(/"[^"]*"|'[^']*'|`[^`]*`/g, '…')
    .replaceAll(/(?:\/[\w.@-]+){2,}/g, '…')
    .replaceAll(/\d+(?:\.\d+)?/g, '#');
}

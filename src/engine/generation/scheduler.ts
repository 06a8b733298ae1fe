/**
 * Which tokens of which requests make the next step. Requests that are mid-reply each add the token that is due; what is
 * left of the step's tokens goes to prompts, in chunks, so a long prompt never stops the others, and a few to guesses. When blocks run out the
 * last request in line gives its blocks back and waits; it loses nothing but time, because the same ids give the same
 * K/V again.
 */
import { ROWS_OF_GUESSES } from './guesses.ts';
import type { PrefixCache } from './prefix-cache.ts';
import { pendingTokens, type RunningSequence } from './sequence.ts';

export interface SchedulerOptions {
  /** Most requests that run at once. */
  readonly maxBatch: number;
  /** Most tokens computed in one step. */
  readonly stepTokens: number;
}

export class Scheduler {
  preemptions = 0;
  readonly #cache: PrefixCache;
  readonly #options: SchedulerOptions;
  /** Both in line order: higher priority first, then earlier arrival. */
  readonly #waiting: RunningSequence[] = [];
  readonly #running: RunningSequence[] = [];
  readonly #step: RunningSequence[] = [];

  constructor(cache: PrefixCache, options: SchedulerOptions) {
    this.#cache = cache;
    this.#options = options;
  }

  get running(): readonly RunningSequence[] {
    return this.#running;
  }

  get waiting(): readonly RunningSequence[] {
    return this.#waiting;
  }

  add(sequence: RunningSequence): void {
    insertInLine(this.#waiting, sequence);
  }

  remove(sequence: RunningSequence): void {
    if (sequence.path) this.#cache.release(sequence.path);
    sequence.path = undefined;
    const line = this.#running.includes(sequence) ? this.#running : this.#waiting;
    const index = line.indexOf(sequence);
    if (index >= 0) line.splice(index, 1);
  }

  /** Takes all running requests (of one adapter, or all) off their blocks; they continue by computing them again. */
  retract(adapter?: string): void {
    for (const sequence of [...this.#running]) {
      if (adapter === undefined || sequence.adapter === adapter) this.#retreat(sequence);
    }
  }

  /** The sequences of the next step, with `scheduled` tokens each and blocks reserved for them. */
  plan(): readonly RunningSequence[] {
    const { stepTokens } = this.#options;
    const preemptions = this.preemptions;
    let left = stepTokens;
    for (const sequence of this.#running) sequence.scheduled = sequence.guesses.count = 0;
    for (let index = 0; index < this.#running.length && left > 0; index++) {
      const sequence = this.#running[index]!;
      if (pendingTokens(sequence) === 1 && this.#makeRoom(sequence, 1)) {
        sequence.scheduled = 1;
        left--;
      }
    }
    for (let index = 0; index < this.#running.length && left > 0; index++) {
      const sequence = this.#running[index]!;
      if (sequence.scheduled === 0) left -= this.#scheduleChunk(sequence, left);
    }
    if (this.preemptions === preemptions) this.#admit(left - this.#guess(left));
    this.#step.length = 0;
    for (const sequence of this.#running) if (sequence.scheduled > 0) this.#step.push(sequence);
    return this.#step;
  }

  /** Adds guesses behind tokens that are due, where few requests run; how many. They take no block from anything that runs. */
  #guess(most: number): number {
    const each = Math.floor(ROWS_OF_GUESSES / Math.max(1, this.#running.length)) - 1;
    let made = 0;
    for (const sequence of this.#running) {
      const { guesses, ids, length, limit, occurrences } = sequence;
      // Penalties of a token depend on those before it.
      if (pendingTokens(sequence) !== 1 || sequence.scheduled !== 1 || occurrences) continue;
      if (guesses.make(ids, length, Math.min(each, most - made, limit - length - 1)) === 0) continue;
      this.#cache.reserve(sequence.path!, 1 + guesses.count);
      guesses.count = Math.min(guesses.count, this.#cache.room(sequence.path!) - 1);
      sequence.scheduled += guesses.count;
      made += guesses.count;
    }
    return made;
  }

  #scheduleChunk(sequence: RunningSequence, most: number): number {
    const wanted = Math.min(pendingTokens(sequence), most);
    this.#cache.reserve(sequence.path!, wanted);
    const room = this.#cache.room(sequence.path!);
    if (room === 0 && !this.#makeRoom(sequence, 1)) return 0;
    sequence.scheduled = Math.min(wanted, this.#cache.room(sequence.path!));
    return sequence.scheduled;
  }

  /** Reserves, taking blocks from the end of the line; false when `sequence` itself was the end. */
  #makeRoom(sequence: RunningSequence, count: number): boolean {
    while (!this.#cache.reserve(sequence.path!, count)) {
      const last = this.#running[this.#running.length - 1]!;
      this.#retreat(last);
      this.preemptions++;
      if (last === sequence) return false;
    }
    return true;
  }

  #retreat(sequence: RunningSequence): void {
    this.#cache.release(sequence.path!);
    sequence.path = undefined;
    sequence.scheduled = sequence.guesses.count = 0;
    this.#running.splice(this.#running.indexOf(sequence), 1);
    insertInLine(this.#waiting, sequence);
  }

  #admit(budget: number): void {
    const { preemptions } = this;
    let left = budget;
    let index = 0;
    while (index < this.#waiting.length && left > 0 && this.#running.length < this.#options.maxBatch) {
      const sequence = this.#waiting[index]!;
      const cached = this.#cache.peek(sequence.adapter, sequence.ids, matchLimit(sequence));
      if (this.#computedSoon(sequence, cached.length)) {
        index++;
        continue;
      }
      // Leave every running request a block to grow into, or admitting one would only put another out.
      const blocks = Math.ceil(sequence.length / this.#cache.blockTokens) + 1;
      const shared = Math.floor(cached.length / this.#cache.blockTokens);
      const needed = blocks - shared + cached.idleBlocks;
      const spare = this.#cache.availableBlocks - this.#running.length;
      if (needed > spare && this.#running.length > 0) return;
      this.#waiting.splice(index, 1);
      insertInLine(this.#running, sequence);
      sequence.path = this.#cache.open(sequence.adapter, sequence.ids, matchLimit(sequence));
      if (sequence.cachedTokens < 0) sequence.cachedTokens = sequence.path.length;
      sequence.scheduled = 0;
      left -= this.#scheduleChunk(sequence, left);
      if (this.preemptions !== preemptions) return;
    }
  }

  /**
   * Whether a running request is computing at least a block that this one would compute too: attempts at one
   * prompt that arrive together wait a step for the first, rather than each computing it.
   */
  #computedSoon(sequence: RunningSequence, cached: number): boolean {
    const limit = matchLimit(sequence);
    const worth = cached + this.#cache.blockTokens;
    if (limit < worth) return false;
    return this.#running.some((other) => {
      if (other.adapter !== sequence.adapter || pendingTokens(other) <= 1) return false;
      const end = Math.min(limit, other.length);
      let same = 0;
      while (same < end && other.ids[same] === sequence.ids[same]) same++;
      return same >= worth;
    });
  }
}

/** The last token is always computed, for its logits; of a prompt to be scored, all that is not yet scored. */
function matchLimit(sequence: RunningSequence): number {
  const known = sequence.length - 1;
  if (!sequence.promptLogprobs || sequence.scored >= sequence.promptTokens) return known;
  return Math.min(known, Math.max(0, sequence.scored - 1));
}

function insertInLine(line: RunningSequence[], sequence: RunningSequence): void {
  let index = line.length;
  while (index > 0 && isBefore(sequence, line[index - 1]!)) index--;
  line.splice(index, 0, sequence);
}

function isBefore(a: RunningSequence, b: RunningSequence): boolean {
  return a.priority === b.priority ? a.order < b.order : a.priority > b.priority;
}

import { EngineError } from '../errors.ts';
import type { VersionSpan } from '../inference/server.ts';
import type { ImageRef, Segment } from '../types.ts';

export interface PlacedImage {
  /** Position of the image's one placeholder id. */
  readonly at: number;
  readonly image: ImageRef;
}

/** Ids that were not sampled: a prompt, or what answers a reply. `at` counts from the first of these ids. */
export interface Rendered {
  readonly ids: Int32Array;
  readonly images: readonly PlacedImage[];
}

/** A rendered continuation; `drop` sampled ids at the end of the reply cannot stay in front of it. */
export interface Extension extends Rendered {
  readonly drop: number;
}

/** What an engine sampled, as it said it. */
export interface SampledReply {
  readonly ids: Int32Array;
  readonly logprobs: Float32Array;
  readonly versions: readonly VersionSpan[];
}

/** The position of tokens in a transcript. */
export interface TokenSpan {
  readonly segment: number;
  readonly start: number;
  readonly end: number;
}

/**
 * The tokens of one trajectory, append-only. What was sampled is stored as sampled and never encoded again;
 * everything else is context. A sampled token is trained in the one segment in which it was sampled: a new
 * segment takes earlier tokens only as context.
 */
export class Transcript {
  readonly #columns: Columns[];
  #turn = 0;

  constructor(prompt: Rendered) {
    this.#columns = [new Columns()];
    this.#append(prompt);
  }

  /** Index of the segment that grows. */
  get segment(): number {
    return this.#columns.length - 1;
  }

  /** Replies so far. */
  get turn(): number {
    return this.#turn;
  }

  /** Tokens of the growing segment. */
  get length(): number {
    return this.#open.length;
  }

  /** The same with images expanded: what counts against an engine's context and against budgets. */
  get expandedLength(): number {
    return this.#open.length + expansion(this.#open.images);
  }

  /** A copy of the growing segment's ids: the next prompt. */
  get ids(): Int32Array {
    return this.#open.ids.slice(0, this.#open.length);
  }

  /** The growing segment's images, in order of their placeholders. */
  get images(): readonly ImageRef[] {
    return this.#open.images.map(({ image }) => image);
  }

  /** Where these placeholders stand. */
  get imagePlaces(): readonly number[] {
    return this.#open.images.map(({ at }) => at);
  }

  /** All tokens of all segments that were sampled. */
  get sampledTokens(): number {
    return this.#columns.reduce((sum, columns) => sum + columns.sampledTokens, 0);
  }

  /** Begins the next turn. An empty reply is a turn too. */
  appendReply(reply: SampledReply): TokenSpan {
    checkReply(reply);
    const columns = this.#open;
    const start = columns.length;
    this.#turn++;
    columns.grow(reply.ids.length);
    columns.ids.set(reply.ids, start);
    columns.logprobs.set(reply.logprobs, start);
    columns.sampled.fill(1, start, columns.length);
    columns.trained.fill(1, start, columns.length);
    columns.turns.fill(this.#turn, start, columns.length);
    for (const { from, version } of reply.versions) columns.versions.fill(version, start + from);
    columns.versions.fill(-1, columns.length);
    columns.sampledTokens += reply.ids.length;
    return { segment: this.segment, start, end: columns.length };
  }

  /**
   * What answers the last reply, belonging to its turn. Where sampled ids at the end of the reply cannot
   * stay in front of it (`drop`), a new segment begins with what does stay as context: the dropped ids remain
   * trained where they were sampled.
   */
  appendObservation(observation: Rendered & { readonly drop?: number }): TokenSpan {
    const drop = observation.drop ?? 0;
    if (drop > 0) this.newSegment(this.upTo({ segment: this.segment, start: 0, end: this.length - drop }));
    const start = this.length;
    this.#append(observation);
    return { segment: this.segment, start, end: this.length };
  }

  /** The context was rewritten: `prompt` is the whole of it, and none of it is trained here. */
  newSegment(prompt: Rendered): void {
    const turn = this.#turn;
    this.#columns.push(new Columns());
    this.#turn = 0; // a segment's prompt is turn 0, whatever came before
    this.#append(prompt);
    this.#turn = turn;
  }

  /** Takes a span out of training: it stays sampled, with its log-probs. */
  exclude({ segment, start, end }: TokenSpan): void {
    const columns = this.#columns[segment];
    if (!columns || start < 0 || start > end || end > columns.length) {
      throw new RangeError(`no tokens ${start}..${end} in segment ${segment}`);
    }
    columns.trained.fill(0, start, end);
  }

  /** Takes a whole reply out of training. The first reply is turn 1. */
  excludeTurn(turn: number): void {
    for (const columns of this.#columns) {
      for (let at = 0; at < columns.length; at++) if (columns.turns[at] === turn) columns.trained[at] = 0;
    }
  }

  /** The segment of a span, up to its end. */
  upTo({ segment, end }: TokenSpan): Rendered {
    const columns = this.#columns[segment]!;
    return { ids: columns.ids.slice(0, end), images: columns.images.filter(({ at }) => at < end) };
  }

  /** A snapshot: later appends do not change it. */
  segments(): Segment[] {
    return this.#columns.map((columns) => ({
      ids: columns.ids.slice(0, columns.length),
      sampled: columns.sampled.slice(0, columns.length),
      trained: columns.trained.slice(0, columns.length),
      logprobs: columns.logprobs.slice(0, columns.length),
      versions: columns.versions.slice(0, columns.length),
      turns: columns.turns.slice(0, columns.length),
      images: [...columns.images],
    }));
  }

  get #open(): Columns {
    return this.#columns.at(-1)!;
  }

  #append({ ids, images }: Rendered): void {
    const columns = this.#open;
    const start = columns.length;
    columns.grow(ids.length);
    columns.ids.set(ids, start);
    columns.versions.fill(-1, start, columns.length);
    columns.turns.fill(this.#turn, start, columns.length);
    for (const { at, image } of images) columns.images.push({ at: start + at, image });
  }
}

/** How many more positions the images take than their placeholders. */
export function expansion(images: readonly PlacedImage[]): number {
  return images.reduce((sum, { image }) => sum + image.tokens - 1, 0);
}

class Columns {
  length = 0;
  sampledTokens = 0;
  ids = new Int32Array(0);
  sampled = new Uint8Array(0);
  trained = new Uint8Array(0);
  logprobs = new Float32Array(0);
  versions = new Int32Array(0);
  turns = new Int32Array(0);
  readonly images: PlacedImage[] = [];

  grow(by: number): void {
    this.length += by;
    if (this.length <= this.ids.length) return;
    const capacity = Math.max(this.length, 2 * this.ids.length, 256);
    this.ids = enlarged(this.ids, new Int32Array(capacity));
    this.sampled = enlarged(this.sampled, new Uint8Array(capacity));
    this.trained = enlarged(this.trained, new Uint8Array(capacity));
    this.logprobs = enlarged(this.logprobs, new Float32Array(capacity));
    this.versions = enlarged(this.versions, new Int32Array(capacity));
    this.turns = enlarged(this.turns, new Int32Array(capacity));
  }
}

function enlarged<A extends Int32Array | Uint8Array | Float32Array>(from: A, to: A): A {
  to.set(from);
  return to;
}

/** A server that contradicts itself must not become training data. */
function checkReply({ ids, logprobs, versions }: SampledReply): void {
  if (ids.length !== logprobs.length) {
    throw new EngineError(
      `the server returned ${ids.length} ids but ${logprobs.length} log-probs; there must be one for each`,
    );
  }
  const bad = logprobs.findIndex((logprob) => Number.isNaN(logprob));
  if (bad >= 0) throw new EngineError(`the server returned NaN as the log-prob of token ${bad} of its reply`);
  if (ids.length === 0) return;
  if (versions[0]?.from !== 0) {
    throw new EngineError(
      `the server did not say which version sampled the first token: ${JSON.stringify(versions)}`,
    );
  }
}

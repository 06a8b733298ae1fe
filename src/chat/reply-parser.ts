import type { Problem, ToolCall, ToolSchema } from '../types.ts';
import { type AddedTokens, unguard } from './added-tokens.ts';
import { CallParts } from './call-parts.ts';
import type { ReplyDelta } from './format.ts';
import { type Block, type Grow, malformed, type Piece, SPELLED, type ToolFormat } from './formats/grammar.ts';

export interface ParserOptions {
  readonly format: ToolFormat;
  readonly tools: readonly ToolSchema[];
  readonly added: AddedTokens;
  /** The generation prompt has opened this block already. */
  readonly begins?: Block | undefined;
  readonly firstCall?: number;
  /** Whether calls are told while they are written. */
  readonly streams?: boolean;
}

/**
 * Reads a reply as it arrives: guarded text in, content, reasoning, calls and problems out. Each character is
 * looked at a bounded number of times. A reply read at once goes through the same code in one push.
 */
export class ReplyParser {
  readonly #options: ParserOptions;
  readonly #marks: Marks;
  readonly #content: Trimmed;
  readonly #reasoning: Trimmed;
  #state: State;
  #rest = '';
  #calls: ToolCall[] = [];
  #problems: Problem[] = [];
  #callCount: number;
  readonly #parts: CallParts | undefined;

  constructor(options: ParserOptions) {
    this.#options = options;
    this.#marks = marksOf(options.format, options.added);
    this.#callCount = options.firstCall ?? 0;
    if (options.streams) this.#parts = new CallParts();
    this.#content = new Trimmed(options.added);
    this.#reasoning = new Trimmed(options.added);
    const begins = options.begins ?? options.format.begins;
    this.#state = begins ? inside(begins) : OUTSIDE;
  }

  push(guarded: string): ReplyDelta {
    this.#rest += guarded;
    this.#advance(false);
    return this.#delta();
  }

  end(): ReplyDelta {
    this.#advance(true);
    return this.#delta();
  }

  #advance(atEnd: boolean): void {
    while (this.#step(atEnd)) {
      // each step takes something from the rest or changes the state
    }
  }

  #step(atEnd: boolean): boolean {
    switch (this.#state.kind) {
      case 'outside':
        return this.#stepOutside(atEnd);
      case 'inside':
        return this.#stepInside(this.#state, atEnd);
      case 'unmarked':
        return this.#stepUnmarked(this.#state, atEnd);
    }
  }

  #stepOutside(atEnd: boolean): boolean {
    const found = this.#marks.open.exec(this.#rest);
    const waiting = atEnd ? 0 : unfinished(this.#rest, this.#marks.openings);
    const certain = found ? found.index : this.#rest.length - waiting;
    const { unmarked } = this.#options.format;
    const unmarkedAt = unmarked ? this.#rest.slice(0, certain).search(unmarked.from) : -1;
    if (unmarkedAt >= 0) {
      this.#content.write(this.#rest.slice(0, unmarkedAt));
      this.#rest = this.#rest.slice(unmarkedAt);
      this.#state = { kind: 'unmarked', chunks: [], grow: unmarked?.grow?.() };
      return true;
    }
    this.#content.write(this.#rest.slice(0, certain));
    this.#rest = this.#rest.slice(certain + (found?.[0].length ?? 0));
    if (!found) return false;
    const block = this.#marks.blocks.get(found[0]);
    if (block) this.#state = inside(block);
    return true;
  }

  #stepUnmarked(state: Unmarked, atEnd: boolean): boolean {
    state.chunks.push(this.#rest);
    if (!atEnd) this.#grow(state, this.#rest);
    this.#rest = '';
    if (!atEnd) return false;
    const { format, tools } = this.#options;
    this.#state = OUTSIDE;
    this.#take(format.unmarked!.read(state.chunks.join(''), tools));
    return false;
  }

  #stepInside(state: Inside, atEnd: boolean): boolean {
    const { block } = state;
    if (state.sink.kind === 'unsure') {
      const begun = state.unsearched + this.#rest;
      const end = state.close.exec(begun)?.index ?? begun.length;
      state.sink = block.sink?.(begun.slice(0, end)) ?? { kind: 'whole' };
      state.unsearched = '';
      const isStream = state.sink.kind === 'content' || state.sink.kind === 'reasoning';
      this.#rest = isStream ? begun.slice((state.sink as { from: number }).from) : begun;
    }
    const text = state.unsearched + this.#rest;
    this.#rest = '';
    const found = state.close.exec(text);
    const end = found ? found.index : text.length;
    const isStream = state.sink.kind === 'content' || state.sink.kind === 'reasoning';

    if (found) {
      const closesIt = block.close.includes(found[0]);
      this.#rest = text.slice(closesIt ? end + found[0].length : end);
      state.chunks.push(text.slice(0, end));
      this.#closeBlock(state, true, closesIt ? found[0] : '');
      this.#state = OUTSIDE;
      return true;
    }
    if (isStream && state.chunks.length === 0) {
      // A call inside reasoning that never closes is a call: from its opening mark on, wait and see.
      const held = state.sink.kind === 'reasoning' ? this.#firstCallMark(text) : -1;
      if (held < 0) {
        const certain = atEnd
          ? text.length
          : text.length - unfinished(text, [...state.marks, ...this.#marks.openings]);
        this.#sink(state, text.slice(0, certain));
        state.unsearched = text.slice(certain);
      } else {
        this.#sink(state, text.slice(0, held));
        state.chunks.push('');
        state.unsearched = text.slice(held);
      }
    } else if (state.sink.kind === 'unsure') {
      state.unsearched = text;
    } else {
      const certain = text.length - unfinished(text, state.marks);
      state.chunks.push(text.slice(0, certain));
      state.unsearched = text.slice(certain);
      if (!atEnd && state.sink.kind === 'whole') this.#grow(state, text.slice(0, certain));
    }
    if (!atEnd) return false;
    state.chunks.push(state.unsearched);
    state.unsearched = '';
    this.#closeBlock(state, false, '');
    this.#state = OUTSIDE;
    return this.#rest !== '';
  }

  #grow({ grow }: { readonly grow: Grow | undefined }, text: string): void {
    const more = this.#parts && grow?.(text);
    if (more) this.#parts!.grow({ ...more, id: more.id ?? `call_${this.#callCount}` });
  }

  #firstCallMark(text: string): number {
    return this.#marks.call ? text.search(this.#marks.call) : -1;
  }

  #closeBlock(state: Inside, closed: boolean, closedBy: string): void {
    const { block, sink, chunks } = state;
    const body = chunks.join('');
    if (sink.kind === 'whole' || sink.kind === 'unsure') {
      this.#take(
        (closed ? undefined : this.#brokenOff(block, body)) ?? this.#read(block, body, closed, closedBy),
      );
    } else if (!closed && sink.kind === 'reasoning' && this.#firstCallMark(body) === 0) {
      this.#rest = body;
    } else {
      this.#sink(state, body);
    }
  }

  #read(block: Block, body: string, closed: boolean, closedBy: string): Piece[] {
    return block.read?.(body, { tools: this.#options.tools, closed, closedBy }) ?? [];
  }

  /** A reply may end within the closing mark. If what is before is whole calls, the rest of the mark is words. */
  #brokenOff(block: Block, body: string): Piece[] | undefined {
    const part = unfinished(body, block.close);
    if (part === 0) return undefined;
    const pieces = this.#read(block, body.slice(0, -part), false, '');
    const isWhole =
      pieces.some(({ kind }) => kind === 'call') && pieces.every(({ kind }) => kind !== 'problem');
    return isWhole ? [...pieces, { kind: 'content', text: body.slice(-part) }] : undefined;
  }

  /** Marks that say nothing are not part of reasoning, nor is its own opening mark written twice. */
  #sink({ sink, block }: Inside, text: string): void {
    if (sink.kind === 'content') this.#content.write(text);
    else this.#reasoning.write(text.replace(this.#marks.silent, '').replaceAll(block.open, ''));
  }

  #take(pieces: readonly Piece[]): void {
    const made = this.#calls.length;
    for (const piece of pieces) {
      switch (piece.kind) {
        case 'content':
          this.#content.write(piece.text);
          break;
        case 'reasoning':
          this.#reasoning.write(piece.text);
          break;
        case 'problem':
          this.#problems.push(unguarded(piece.problem));
          break;
        case 'call': {
          const { id = `call_${this.#callCount}`, name, arguments: given } = piece.call;
          this.#callCount++;
          this.#calls.push(unguarded({ id, name, arguments: given }));
        }
      }
    }
    this.#parts?.take(this.#calls.slice(made));
  }

  #delta(): ReplyDelta {
    const toolCalls = this.#calls;
    const problems = this.#problems;
    this.#calls = [];
    this.#problems = [];
    const callParts = this.#parts?.told() ?? [];
    return {
      content: this.#content.take(),
      reasoning: this.#reasoning.take(),
      toolCalls,
      problems,
      callParts,
    };
  }
}

interface Unmarked {
  readonly kind: 'unmarked';
  readonly chunks: string[];
  readonly grow: Grow | undefined;
}

interface Inside {
  readonly kind: 'inside';
  readonly block: Block;
  /** What ends the block. */
  readonly marks: readonly string[];
  readonly close: RegExp;
  /** Text that holds no mark. */
  readonly chunks: string[];
  /** The end of the text, where a mark may have begun. */
  unsearched: string;
  readonly grow: Grow | undefined;
  sink: ReturnType<NonNullable<Block['sink']>>;
}

type State = Unmarked | Inside | { readonly kind: 'outside' };

const OUTSIDE: State = { kind: 'outside' };

function inside(block: Block): Inside {
  const marks = [...block.close, ...(block.until ?? [])];
  const sink = block.sink ? block.sink('') : { kind: 'whole' as const };
  const grow = block.grow?.();
  return { kind: 'inside', block, marks, close: anyOf(marks), chunks: [], unsearched: '', sink, grow };
}

interface Marks {
  readonly blocks: ReadonlyMap<string, Block>;
  readonly openings: readonly string[];
  readonly open: RegExp;
  /** Openings of blocks that are read as a whole. */
  readonly call: RegExp | undefined;
  readonly silent: RegExp;
}

function marksOf(format: ToolFormat, added: AddedTokens): Marks {
  const { ignored = [] } = format;
  const calls = format.blocks.filter((block) => block.read !== undefined && !block.sink);
  const blocks = [...format.blocks, ...calls.flatMap((block) => spelled(block, added))];
  const openings = [...blocks.map(({ open }) => open), ...ignored];
  return {
    blocks: new Map(blocks.map((block) => [block.open, block])),
    openings,
    open: anyOf(openings),
    call: calls.length > 0 ? anyOf(calls.map(({ open }) => open)) : undefined,
    silent: anyOf(ignored, 'g'),
  };
}

/**
 * A call whose marks the model wrote in ordinary letters, where they are tokens. It is not made, and the model is
 * gets an error. What does not read as a call is content: the reply may be explaining the format.
 */
function spelled(block: Block, added: AddedTokens): Block[] {
  const open = added.guard(block.open);
  if (open === block.open) return [];
  const guarded = block.close.map((mark) => added.guard(mark));
  return [
    {
      open,
      close: [...new Set([...block.close, ...guarded])],
      read: (body, context) => {
        const text = unguard(body);
        const whole = `${open}${body}${context.closedBy ?? ''}`;
        const isCall = block.read!(text, context).some(({ kind }) => kind === 'call');
        return isCall ? [malformed(SPELLED, whole)] : [{ kind: 'content', text: whole }];
      },
    },
  ];
}

function anyOf(texts: readonly string[], flags = ''): RegExp {
  const longestFirst = [...texts].sort((a, b) => b.length - a.length);
  const pattern = longestFirst.map((text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')).join('|');
  return new RegExp(pattern || '(?!)', flags);
}

/** Length of the longest end of `text` that is the start of a mark. */
function unfinished(text: string, marks: readonly string[]): number {
  let longest = 0;
  for (const mark of marks) {
    for (let length = Math.min(mark.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(mark.slice(0, length))) longest = length;
    }
  }
  return longest;
}

/** Text without white space around it and without special tokens, while it arrives. */
class Trimmed {
  readonly #added: AddedTokens;
  #ready = '';
  #space = '';
  #begun = false;

  constructor(added: AddedTokens) {
    this.#added = added;
  }

  write(guarded: string): void {
    const text = unguard(this.#added.removeSpecial(guarded));
    const kept = this.#begun ? text : text.trimStart();
    if (kept === '') return;
    const body = kept.trimEnd();
    if (body === '') {
      this.#space += kept;
      return;
    }
    this.#ready += this.#space + body;
    this.#space = kept.slice(body.length);
    this.#begun = true;
  }

  take(): string {
    const ready = this.#ready;
    this.#ready = '';
    return ready;
  }
}

function unguarded<T>(value: T): T;
function unguarded(value: unknown): unknown {
  if (typeof value === 'string') return unguard(value);
  if (Array.isArray(value)) return value.map((item) => unguarded(item as unknown));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [unguard(key), unguarded(item as unknown)]),
  );
}

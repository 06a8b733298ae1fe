import type { ToolFormat } from '../../src/chat/formats/grammar.ts';
import { fragmentsOf, marksOf, read, SYNTAX, writtenBy } from './replies.ts';

/** How the time of reading one piece over and over grows with its length. */
export interface Growth {
  readonly format: string;
  /** What stands in front of the pieces, once. */
  readonly head: string;
  readonly piece: string;
  /** Time at twice the length over the time at the length: 2 if linear, 4 if quadratic. */
  readonly perDoubling: number;
  readonly milliseconds: number;
}

const SHORT = 8_000;
const DOUBLINGS = 3;
/** A long reply that is read faster than this has nothing to measure, and nothing quadratic. */
const NEGLIGIBLE_MS = 8;

interface Try {
  readonly format: ToolFormat;
  readonly head: string;
  readonly piece: string;
}

/** The growth of every piece that a format may meet: outside its blocks, inside each, and after half a call. */
export function growths(format: ToolFormat): Growth[] {
  const openings = marksOf(format).slice(0, 1);
  const pieces = [...fragmentsOf(format), ...openings.flatMap((open) => SYNTAX.map((each) => open + each))];
  const halfCalls = writtenBy(format).filter((_, at) => at === 6 || at === 8);
  const tries: Try[] = [
    ...pieces.map((piece) => ({ format, head: '', piece })),
    ...format.blocks.flatMap((block) =>
      SYNTAX.map((piece) => ({ format: { ...format, begins: block }, head: '', piece })),
    ),
    ...halfCalls.flatMap((head) => SYNTAX.map((piece) => ({ format, head, piece }))),
  ];
  return tries.filter(({ piece }) => piece !== '').map(growth);
}

/** The smallest of a few measurements: a busy machine spoils one of them, a quadratic parser all of them. */
function growth(tried: Try): Growth {
  let best: Growth | undefined;
  for (let again = 0; again < 5 && (best?.perDoubling ?? Infinity) > 2.4; again++) {
    const next = measure(tried, again);
    if (!best || next.perDoubling < best.perDoubling) best = next;
  }
  return best!;
}

function measure(tried: Try, again: number): Growth {
  const long = fastest(tried, SHORT * 2 ** DOUBLINGS, 1 + again);
  const perDoubling = long < NEGLIGIBLE_MS ? 0 : (long / fastest(tried, SHORT, 3 + again)) ** (1 / DOUBLINGS);
  const { format, head, piece } = tried;
  return { format: format.name, head, piece, perDoubling, milliseconds: long };
}

function fastest({ format, head, piece }: Try, length: number, runs: number): number {
  const text = head + piece.repeat(Math.ceil(length / piece.length));
  let best = Infinity;
  for (let run = 0; run < runs; run++) {
    const start = process.cpuUsage();
    read(format, text);
    // Processor time: the clock also counts what other programs do.
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 1000);
  }
  return best;
}

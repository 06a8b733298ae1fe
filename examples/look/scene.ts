import { createRandom, hashSeed } from 'rollcall/datasets';

/** Colours by name, and how far from each other they look. */
export const COLOURS = {
  red: [210, 50, 40],
  green: [40, 160, 60],
  blue: [50, 80, 210],
  yellow: [225, 200, 50],
} as const;
export type Colour = keyof typeof COLOURS;

/** A quarter turn times one of these, clockwise. */
export const TURNS = [0, 90, 180, 270] as const;
export type Turn = (typeof TURNS)[number];

/** A card with a digit. It fills a cell of 2 × 2 eighths of the picture; `column` and `row` are the cell's corner. */
export interface Card {
  readonly colour: Colour;
  readonly digit: number;
  readonly column: number;
  readonly row: number;
  /** How dark the digit is on the card, 0 to 1. */
  readonly ink: number;
}

/** Three cards on a table, all turned alike. Their digits are too small to be read in a view of the whole. */
export interface Scene {
  readonly cards: readonly Card[];
  readonly turn: Turn;
  /** How bright the light is. */
  readonly shade: number;
  readonly seed: number;
}

/** The picture has this many pixels a side, a view 32: an eighth of it. */
export const PICTURE = 256;
const CELLS = 8;

/** `turned` is the share of scenes whose cards do not stand upright. */
export function createScene(seed: number, index: number, turned: number): Scene {
  const random = createRandom(hashSeed(seed, 'scene', index));
  const colours = shuffled(Object.keys(COLOURS) as Colour[], random).slice(0, 3);
  const cells: { column: number; row: number }[] = [];
  while (cells.length < colours.length) {
    const cell = { column: random.integer(CELLS - 1), row: random.integer(CELLS - 1) };
    const isFree = cells.every(
      ({ column, row }) => Math.abs(column - cell.column) > 2 || Math.abs(row - cell.row) > 2,
    );
    if (isFree) cells.push(cell);
  }
  return {
    cards: colours.map((colour, at) => ({
      colour,
      digit: random.integer(10),
      ...cells[at]!,
      ink: 0.55 + 0.45 * random.next(),
    })),
    turn: random.next() < turned ? random.pick([90, 180, 270] as const) : 0,
    shade: 0.85 + 0.15 * random.next(),
    seed: hashSeed(seed, 'noise', index),
  };
}

function shuffled<V>(values: readonly V[], random: { integer(below: number): number }): V[] {
  const left = [...values];
  return values.map(() => left.splice(random.integer(left.length), 1)[0]!);
}

/** The card that is seen first: from the top, then from the left. */
export function topCard({ cards }: Scene): Card {
  return [...cards].sort((a, b) => a.row - b.row || a.column - b.column)[0]!;
}

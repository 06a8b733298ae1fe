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

/** A card with a digit, in the middle of one of the nine boxes of the table. */
export interface Card {
  readonly colour: Colour;
  readonly digit: number;
  /** 1 to 9, as on a telephone: 1 to 3 are the upper row. */
  readonly box: number;
  /** How dark the digit is on the card, 0 to 1. */
  readonly ink: number;
}

/** Cards on a table, all turned alike. Their digits are too small to be read in a view of the whole. */
export interface Scene {
  readonly cards: readonly Card[];
  readonly turn: Turn;
  /** How bright the light is. */
  readonly shade: number;
  readonly seed: number;
}

/** Boxes a side. */
export const SIDE = 3;

/** `turned` is the share of scenes whose cards do not stand upright; `count` of the four colours lie there. */
export function createScene(seed: number, index: number, turned: number, count = 4): Scene {
  const random = createRandom(hashSeed(seed, 'scene', index));
  const colours = shuffled(Object.keys(COLOURS) as Colour[], random).slice(0, count);
  const boxes = shuffled([1, 2, 3, 4, 5, 6, 7, 8, 9], random);
  return {
    cards: colours.map((colour, at) => ({
      colour,
      digit: random.integer(10),
      box: boxes[at]!,
      ink: 0.55 + 0.45 * random.next(),
    })),
    turn: random.next() < turned ? random.pick([90, 180, 270] as const) : 0,
    shade: 0.95 + 0.05 * random.next(),
    seed: hashSeed(seed, 'noise', index),
  };
}

function shuffled<V>(values: readonly V[], random: { integer(below: number): number }): V[] {
  const left = [...values];
  return values.map(() => left.splice(random.integer(left.length), 1)[0]!);
}

/** Where the patches of an image stand in the encoder, and where its tokens come out of it. */
import type { VisionConfig } from '../model/vision-config.ts';

/** A size in patches. */
export interface Grid {
  readonly width: number;
  readonly height: number;
}

export interface PatchLayout {
  readonly patches: number;
  readonly tokens: number;
  /** The patch, in the processor's order, that stands at each place of the encoder. */
  readonly order: Int32Array;
  /** Patches of each window, in the encoder's order. */
  readonly windows: readonly number[];
  /** Row and column in the image of the patch at each place. */
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  /** For each token in reading order, where it comes out. */
  readonly tokenAt: Int32Array;
}

/** Windows one after another, so that each is a run of places; inside a window tokens in reading order. */
export function layOutPatches(grid: Grid, vision: VisionConfig): PatchLayout {
  const { merge, patch } = vision;
  const perToken = merge * merge;
  const across = grid.width / merge;
  const down = grid.height / merge;
  const side = Math.max(1, Math.floor(vision.window / merge / patch));
  const tokens = across * down;
  const order = new Int32Array(tokens * perToken);
  const rows = new Int32Array(order.length);
  const columns = new Int32Array(order.length);
  const tokenAt = new Int32Array(tokens);
  const windows: number[] = [];
  let place = 0;
  for (let top = 0; top < down; top += side)
    for (let left = 0; left < across; left += side) {
      const from = place;
      for (let row = top; row < Math.min(down, top + side); row++)
        for (let column = left; column < Math.min(across, left + side); column++) {
          const token = row * across + column;
          tokenAt[token] = place / perToken;
          for (let inner = 0; inner < perToken; inner++, place++) {
            order[place] = token * perToken + inner;
            rows[place] = row * merge + Math.floor(inner / merge);
            columns[place] = column * merge + (inner % merge);
          }
        }
      windows.push(place - from);
    }
  return { patches: order.length, tokens, order, windows, rows, columns, tokenAt };
}

/**
 * Positions in time, row and column (Qwen's m-rope): text counts on in all three; the tokens of an image share one time and
 * have their own row and column; what follows counts on from the largest.
 */
import type { Size } from './processor.ts';

export interface PlacedGrid {
  /** Position of the first of its tokens. */
  readonly start: number;
  /** In tokens. */
  readonly size: Size;
}

/** [length, 3] of the first `length` positions; pictures in order of `start`. */
export function mropePositions(length: number, pictures: readonly PlacedGrid[]): Int32Array {
  const positions = new Int32Array(3 * length);
  let next = 0;
  let at = 0;
  const text = (end: number) => {
    for (; at < Math.min(end, length); at++, next++) positions.fill(next, 3 * at, 3 * at + 3);
  };
  for (const { start, size } of pictures) {
    text(start);
    const count = Math.min(size.width * size.height, length - at);
    for (let token = 0; token < count; token++, at++) {
      positions[3 * at] = next;
      positions[3 * at + 1] = next + Math.floor(token / size.width);
      positions[3 * at + 2] = next + (token % size.width);
    }
    next += Math.max(size.width, size.height);
  }
  text(length);
  return positions;
}

/** How far the position after all pictures runs behind a count of tokens. */
export function positionLag(pictures: readonly PlacedGrid[]): number {
  return pictures.reduce(
    (lag, { size }) => lag + size.width * size.height - Math.max(size.width, size.height),
    0,
  );
}

/** Which of the three positions turns each pair of a head. */
export function axisOfPair(sections: readonly number[]): Uint8Array {
  return Uint8Array.from(sections.flatMap((size, axis) => Array.from({ length: size }, () => axis)));
}

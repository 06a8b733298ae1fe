import type { Pixels } from 'rollcall/services';
import { type Card, COLOURS, PICTURE, type Scene, type Turn } from './scene.ts';

/** Corners in eighths of the picture: left, top, right, bottom. */
export type Box = readonly [number, number, number, number];
export const WHOLE: Box = [0, 0, 8, 8];
/** Pixels a side of what the model is shown, whatever the box. */
export const VIEW = 32;

const CELL = PICTURE / 4;
const CARD = 56;
const BAR = 6;
const SCALE = 3;
/** Five columns by seven rows. */
const DIGITS = [
  '01110 10001 10011 10101 11001 10001 01110',
  '00100 01100 00100 00100 00100 00100 01110',
  '01110 10001 00001 00110 01000 10000 11111',
  '11110 00001 00001 01110 00001 00001 11110',
  '00010 00110 01010 10010 11111 00010 00010',
  '11111 10000 11110 00001 00001 10001 01110',
  '00110 01000 10000 11110 10001 10001 01110',
  '11111 00001 00010 00100 01000 01000 01000',
  '01110 10001 10001 01110 10001 10001 01110',
  '01110 10001 10001 01111 00001 00010 01100',
].map((rows) => rows.split(' '));

/** What is seen in a box, and turned: each pixel is the mean of those it stands for. */
export function view(scene: Scene, box: Box, turn: Turn = 0): Pixels {
  const [left, top, right, bottom] = box;
  const [across, down] = [right - left, bottom - top]; // pixels of the picture in one of the view
  const whole = paint(scene, box);
  const rgb = new Uint8Array(3 * VIEW * VIEW);
  for (let y = 0; y < VIEW; y++)
    for (let x = 0; x < VIEW; x++)
      for (let part = 0; part < 3; part++) {
        let sum = 0;
        for (let dy = 0; dy < down; dy++) {
          const row = 3 * ((y * down + dy) * VIEW * across + x * across) + part;
          for (let dx = 0; dx < across; dx++) sum += whole[row + 3 * dx]!;
        }
        rgb[3 * (y * VIEW + x) + part] = Math.round(sum / (across * down));
      }
  return turned({ width: VIEW, height: VIEW, rgb }, turn);
}

export function blank(): Pixels {
  return { width: VIEW, height: VIEW, rgb: new Uint8Array(3 * VIEW * VIEW).fill(128) };
}

/** The picture inside a box, at full size. */
function paint(scene: Scene, [left, top, right, bottom]: Box): Uint8ClampedArray {
  const side = PICTURE / 8;
  const [width, height] = [(right - left) * side, (bottom - top) * side];
  const rgb = new Uint8ClampedArray(3 * width * height);
  const noise = (x: number, y: number) =>
    ((Math.imul(x * 73 + y * 179 + scene.seed, 0x9e3779b1) >>> 27) - 16) / 2;
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++, at += 3) {
      // The table is lit from two sides: its colour says where on it one is.
      const [atX, atY] = [left * side + x, top * side + y];
      const grain = noise(atX, atY);
      rgb[at] = scene.shade * (100 + (150 * atX) / PICTURE) + grain;
      rgb[at + 1] = scene.shade * 230 + grain;
      rgb[at + 2] = scene.shade * (100 + (150 * atY) / PICTURE) + grain;
    }
  for (const card of scene.cards) {
    const [cardX, cardY] = cornerOf(card);
    const colour = COLOURS[card.colour];
    for (let b = 0; b < CARD; b++) {
      const y = cardY + b - top * side;
      if (y < 0 || y >= height) continue;
      for (let a = 0; a < CARD; a++) {
        const x = cardX + a - left * side;
        if (x < 0 || x >= width) continue;
        const light = lightOf(card, scene.turn, a, b);
        const grain = noise(cardX + a, cardY + b);
        for (let part = 0; part < 3; part++) rgb[3 * (y * width + x) + part] = colour[part]! * light + grain;
      }
    }
  }
  return rgb;
}

function cornerOf({ column, row }: Card): readonly [number, number] {
  const margin = (CELL - CARD) / 2;
  return [(column * PICTURE) / 8 + margin, (row * PICTURE) / 8 + margin];
}

/** How much of a card's colour is left at a point of it: the digit and the bar above it are darker. */
function lightOf({ digit, ink }: Card, turn: Turn, a: number, b: number): number {
  const last = CARD - 1;
  // Back to the card as it stands upright.
  const u = turn === 0 ? a : turn === 90 ? b : turn === 180 ? last - a : last - b;
  const v = turn === 0 ? b : turn === 90 ? last - a : turn === 180 ? last - b : a;
  if (v < BAR) return 0.25;
  const column = Math.floor((u - (CARD - 5 * SCALE) / 2) / SCALE);
  const row = Math.floor((v - BAR / 2 - (CARD - 7 * SCALE) / 2) / SCALE);
  return DIGITS[digit]![row]?.[column] === '1' ? 1 - ink : 1;
}

/** Clockwise. */
export function turned(image: Pixels, turn: Turn): Pixels {
  if (turn === 0) return image;
  const { width: side, rgb } = image;
  const out = new Uint8Array(rgb.length);
  const last = side - 1;
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++) {
      const fromX = turn === 90 ? y : turn === 180 ? last - x : last - y;
      const fromY = turn === 90 ? last - x : turn === 180 ? last - y : x;
      for (let part = 0; part < 3; part++)
        out[3 * (y * side + x) + part] = rgb[3 * (fromY * side + fromX) + part]!;
    }
  return { width: side, height: side, rgb: out };
}

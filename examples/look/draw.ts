import type { Pixels } from 'rollcall/services';
import { type Card, COLOURS, type Scene, SIDE, type Turn } from './scene.ts';

/** A box of the table, 1 to 9, or all of it. */
export type Box = number | 'whole';

/** Pixels a side of a box in the picture, in a view of the whole and in a view of the box alone. */
const PAINTED = 64;
const FAR = 8;
const NEAR = 32;
const CARD = 48;
const BAR = 8;
/** Pixels of a digit's dot: half of one in the view of the whole, two in that of its box. */
const SCALE = 4;
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

/** What is seen, and turned: each pixel is the mean of those it stands for. */
export function view(scene: Scene, box: Box, turn: Turn = 0): Pixels {
  const boxes = box === 'whole' ? SIDE : 1;
  const side = sideOf(box);
  const shrink = (boxes * PAINTED) / side;
  const whole = paint(scene, box);
  const rgb = new Uint8Array(3 * side * side);
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++)
      for (let part = 0; part < 3; part++) {
        let sum = 0;
        for (let dy = 0; dy < shrink; dy++) {
          const row = 3 * ((y * shrink + dy) * boxes * PAINTED + x * shrink) + part;
          for (let dx = 0; dx < shrink; dx++) sum += whole[row + 3 * dx]!;
        }
        rgb[3 * (y * side + x) + part] = Math.round(sum / shrink ** 2);
      }
  return turned({ width: side, height: side, rgb }, turn);
}

const sideOf = (box: Box) => (box === 'whole' ? SIDE * FAR : NEAR);

/** As large as a view of the box, and grey. */
export function blank(box: Box): Pixels {
  const side = sideOf(box);
  return { width: side, height: side, rgb: new Uint8Array(3 * side * side).fill(128) };
}

/** Column and row of a box. */
const placeOf = (box: number) => [(box - 1) % SIDE, Math.floor((box - 1) / SIDE)] as const;

/** The picture inside a box, at full size. */
function paint(scene: Scene, box: Box): Uint8ClampedArray {
  const side = (box === 'whole' ? SIDE : 1) * PAINTED;
  const [left, top] = (box === 'whole' ? [0, 0] : placeOf(box)).map((place) => place * PAINTED) as [
    number,
    number,
  ];
  const rgb = new Uint8ClampedArray(3 * side * side);
  const seed = scene.seed | 0;
  const noise = (x: number, y: number) =>
    ((Math.imul((x * 73 + y * 179 + seed) | 0, 0x9e3779b1) >>> 27) - 16) / 2;
  // Each box of the table has its tint: what is seen of it says where on it one is.
  const tint = (at: number) => scene.shade * (50 + 100 * Math.floor(at / PAINTED));
  const reds = Float64Array.from({ length: side }, (_, x) => tint(left + x));
  const green = scene.shade * 230;
  for (let y = 0, at = 0; y < side; y++) {
    const blue = tint(top + y);
    for (let x = 0; x < side; x++, at += 3) {
      const grain = noise(left + x, top + y);
      rgb[at] = reds[x]! + grain;
      rgb[at + 1] = green + grain;
      rgb[at + 2] = blue + grain;
    }
  }
  for (const card of scene.cards) {
    const [cardX, cardY] = cornerOf(card);
    const colour = COLOURS[card.colour];
    for (let b = 0; b < CARD; b++) {
      const y = cardY + b - top;
      if (y < 0 || y >= side) continue;
      for (let a = 0; a < CARD; a++) {
        const x = cardX + a - left;
        if (x < 0 || x >= side) continue;
        const light = lightOf(card, scene.turn, a, b);
        const grain = noise(cardX + a, cardY + b);
        for (let part = 0; part < 3; part++) rgb[3 * (y * side + x) + part] = colour[part]! * light + grain;
      }
    }
  }
  return rgb;
}

function cornerOf({ box }: Card): readonly [number, number] {
  const [column, row] = placeOf(box);
  const margin = (PAINTED - CARD) / 2;
  return [column * PAINTED + margin, row * PAINTED + margin];
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

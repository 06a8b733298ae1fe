/** Pictures in a terminal: kitty's protocol, iTerm2's, or sixels; a terminal without any gets the path of the file. */
import type { Pixels } from '../lib/images/pixels.ts';

export const GRAPHICS = ['kitty', 'iterm2', 'sixel', 'path'] as const;
export type Graphics = (typeof GRAPHICS)[number];

/** What this terminal can show, from what it says of itself; inside tmux and screen nothing is sure to arrive. */
export function graphicsOf(
  environment: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
): Graphics {
  const { TERM = '', TERM_PROGRAM = '', LC_TERMINAL, KITTY_WINDOW_ID, TMUX, STY } = environment;
  if (!isTerminal || TMUX || STY) return 'path';
  if (KITTY_WINDOW_ID || /kitty|ghostty/.test(TERM) || TERM_PROGRAM === 'ghostty') return 'kitty';
  if (['iTerm.app', 'WezTerm', 'mintty'].includes(TERM_PROGRAM) || LC_TERMINAL === 'iTerm2') return 'iterm2';
  return /sixel|^foot|^mlterm|^yaft/.test(TERM) ? 'sixel' : 'path';
}

/** Kitty takes base64 in pieces of at most this many characters. */
const KITTY_PIECE = 4096;

/** A PNG by kitty's graphics protocol: the first piece says what it is, every other only whether more follows. */
export function kittyImage(png: Uint8Array): string {
  const data = Buffer.from(png).toString('base64');
  const pieces: string[] = [];
  for (let at = 0; at < data.length; at += KITTY_PIECE) {
    const isLast = at + KITTY_PIECE >= data.length;
    const keys = `${at === 0 ? 'a=T,f=100,q=2,' : ''}m=${isLast ? 0 : 1}`;
    pieces.push(`\x1b_G${keys};${data.slice(at, at + KITTY_PIECE)}\x1b\\`);
  }
  return pieces.join('');
}

/** An image file of any kind by iTerm2's protocol. */
export function iterm2Image(bytes: Uint8Array): string {
  const data = Buffer.from(bytes).toString('base64');
  return `\x1b]1337;File=inline=1;size=${bytes.length};preserveAspectRatio=1:${data}\x07`;
}

/** Levels of each of red, green and blue: 216 colours, which every terminal with sixels has. */
const LEVELS = 6;
const SIXEL_ROWS = 6;

/** Six rows at a time; in each band a line for every colour that occurs, laid over one another. */
export function sixelImage({ width, height, rgb }: Pixels): string {
  const colours = new Uint8Array(width * height);
  const level = (value: number) => Math.round((value * (LEVELS - 1)) / 255);
  for (let at = 0; at < colours.length; at++) {
    const [red, green, blue] = [rgb[3 * at]!, rgb[3 * at + 1]!, rgb[3 * at + 2]!];
    colours[at] = (level(red) * LEVELS + level(green)) * LEVELS + level(blue);
  }
  const share = (step: number) => Math.round((100 * step) / (LEVELS - 1));
  const palette = [...new Set(colours)].map((colour) => {
    const parts = [Math.floor(colour / LEVELS ** 2), Math.floor(colour / LEVELS) % LEVELS, colour % LEVELS];
    return `#${colour};2;${parts.map(share).join(';')}`;
  });
  const bands: string[] = [];
  for (let top = 0; top < height; top += SIXEL_ROWS) bands.push(band(colours, width, height, top));
  return `\x1bPq"1;1;${width};${height}${palette.join('')}${bands.join('-')}\x1b\\`;
}

function band(colours: Uint8Array, width: number, height: number, top: number): string {
  const rows = Math.min(SIXEL_ROWS, height - top);
  const lines = new Map<number, Uint8Array>();
  for (let row = 0; row < rows; row++)
    for (let x = 0; x < width; x++) {
      const colour = colours[(top + row) * width + x]!;
      const line = lines.get(colour) ?? new Uint8Array(width);
      line[x]! |= 1 << row;
      lines.set(colour, line);
    }
  return [...lines].map(([colour, line]) => `#${colour}${runs(line)}`).join('$');
}

/** A column is a character from `?`; four and more alike are written with their number. */
function runs(line: Uint8Array): string {
  let text = '';
  for (let x = 0; x < line.length; ) {
    let end = x + 1;
    while (end < line.length && line[end] === line[x]) end++;
    const character = String.fromCharCode(63 + line[x]!);
    text += end - x > 3 ? `!${end - x}${character}` : character.repeat(end - x);
    x = end;
  }
  return text;
}

import { expect, test } from 'vitest';
import { graphicsOf, iterm2Image, kittyImage, sixelImage } from './terminal-graphics.ts';

test.each([
  [{ KITTY_WINDOW_ID: '1', TERM: 'xterm-kitty' }, true, 'kitty'],
  [{ TERM: 'xterm-ghostty' }, true, 'kitty'],
  [{ TERM_PROGRAM: 'iTerm.app', TERM: 'xterm-256color' }, true, 'iterm2'],
  [{ LC_TERMINAL: 'iTerm2', TERM: 'xterm-256color' }, true, 'iterm2'],
  [{ TERM: 'foot' }, true, 'sixel'],
  [{ TERM: 'xterm-256color' }, true, 'path'],
  [{ TERM: 'xterm-kitty', TMUX: '/tmp/tmux' }, true, 'path'],
  [{ TERM: 'xterm-kitty' }, false, 'path'],
] as const)('a terminal that says %j (terminal: %s) is given %s', (environment, isTerminal, graphics) => {
  expect(graphicsOf(environment, isTerminal)).toBe(graphics);
});

test("kitty's pieces put together are the file, and only the last says that it is", () => {
  const file = Uint8Array.from({ length: 7000 }, (_, at) => at % 251);
  const sent = kittyImage(file);
  const pieces = sent
    .split('\x1b\\')
    .slice(0, -1)
    .map((piece) => {
      const [keys, data] = piece.split(';');
      return { keys, data };
    });
  expect(pieces.map(({ keys }) => keys)).toEqual(
    ['a=T,f=100,q=2,m=1', 'm=1', 'm=0'].map((keys) => `\x1b_G${keys}`),
  );
  expect(pieces.every(({ data }) => data!.length <= 4096)).toBe(true);
  expect(new Uint8Array(Buffer.from(pieces.map(({ data }) => data).join(''), 'base64'))).toEqual(file);
});

test('iTerm2 gets the whole file with its size', () => {
  expect(iterm2Image(Uint8Array.of(1, 2, 3))).toBe(
    '\x1b]1337;File=inline=1;size=3;preserveAspectRatio=1:AQID\x07',
  );
});

test('sixels, worked out by hand: a red column, five white ones, and a second band of one row', () => {
  const [width, height] = [6, 7];
  const rgb = new Uint8Array(3 * width * height).fill(255);
  for (let y = 0; y < height; y++) rgb.set([255, 0, 0], 3 * y * width);
  // Six rows are the bits 63, "~"; one row is the bit 1, "@". Red is 5·36 = 180, white 215.
  expect(sixelImage({ width, height, rgb })).toBe(
    '\x1bPq"1;1;6;7#180;2;100;0;0#215;2;100;100;100#180~!5?$#215?!5~-#180@!5?$#215?!5@\x1b\\',
  );
});

import { expect, test } from 'vitest';
import { decodePng, encodePng } from '../../lib/images/png.ts';
import { memoryImages } from '../../services/image-blobs.ts';
import type { Task } from '../../types.ts';
import type { Tool, ToolContext, ToolResult } from '../tool.ts';
import { drawLineTool, measureTool } from './drawing-tools.ts';

const white = encodePng({ width: 8, height: 6, rgb: new Uint8Array(3 * 8 * 6).fill(255) });
const row = (source: object): Task => ({
  prompt: [
    {
      role: 'user',
      content: [
        { type: 'image', source },
        { type: 'text', text: 'Find x.' },
      ],
    },
  ],
});

async function draws(made: Tool, task: Task) {
  const images = memoryImages();
  const context = { task, image: images.put } as ToolContext<unknown>;
  const state = await made.open(context);
  return async (from: number[], to: number[]) => {
    const result = (await made.run({ from, to }, { ...context, state })) as ToolResult;
    const { width, height, rgb } = decodePng(await images.read(result.images![0]!));
    const lines = Array.from({ length: height }, (_, y) =>
      Array.from({ length: width }, (_, x) => (rgb[3 * (y * width + x) + 1] === 0 ? '#' : '.')).join(''),
    );
    return { content: result.content, lines };
  };
}

test("a line is drawn into the row's picture, and the next one beside it", async () => {
  const draw = await draws(drawLineTool(), row({ bytes: white }));
  expect(await draw([1, 1], [5, 1])).toEqual({
    content: 'The line from [1, 1] to [5, 1] is drawn.',
    lines: ['........', '.#####..', '........', '........', '........', '........'],
  });
  const { lines } = await draw([0, 2], [3, 5]);
  expect(lines).toEqual(['........', '.#####..', '#.......', '.#......', '..#.....', '...#....']);
});

test('two trajectories draw into pictures of their own; the row may name another picture', async () => {
  const made = drawLineTool();
  const other = encodePng({ width: 2, height: 1, rgb: new Uint8Array(6).fill(255) });
  const path = `data:image/png;base64,${Buffer.from(other).toString('base64')}`;
  const named = { ...row({ bytes: white }), toolsKwargs: { draw_line: { create_kwargs: { image: path } } } };
  const [first, second] = [await draws(made, row({ bytes: white })), await draws(made, named)];
  await first([0, 0], [7, 0]);
  expect((await second([0, 0], [1, 0])).lines).toEqual(['##']);
});

test('what cannot be drawn is said', async () => {
  const draw = await draws(drawLineTool(), row({ bytes: white }));
  await expect(draw([1, 1], [9, 1])).rejects.toThrow(
    'the point [9, 1] lies outside of the picture, which is 8 pixels wide and 6 high',
  );
  await expect(draw([1, 1], [1, 1])).rejects.toThrow('from and to are both [1, 1]');
  expect(() => drawLineTool().check({ prompt: [{ role: 'user', content: 'Find x.' }] })).toThrow(
    'the tool draw_line draws into the first image of a prompt, or into extra_info.tools_kwargs.draw_line.create_kwargs.image; the row has neither',
  );
});

test.each<[readonly (readonly number[])[], string]>([
  [
    [
      [0, 0],
      [3, 4],
    ],
    'The distance is 5 pixels.',
  ],
  [
    [
      [10, 0],
      [0, 0],
      [0, 7],
    ],
    'The angle is 90 degrees.',
  ],
  [
    [
      [10, 0],
      [0, 0],
      [5, 5],
    ],
    'The angle is 45 degrees.',
  ],
  [
    [
      [1, 0],
      [0, 0],
      [-1, 0],
    ],
    'The angle is 180 degrees.',
  ],
])('%j is measured', (points, said) => {
  expect(measureTool().run({ points }, {} as ToolContext)).toBe(said);
});

test('an angle without two sides is refused', () => {
  const points = [
    [1, 1],
    [1, 1],
    [2, 2],
  ];
  expect(() => measureTool().run({ points }, {} as ToolContext)).toThrow(
    'two points that differ from its vertex',
  );
});

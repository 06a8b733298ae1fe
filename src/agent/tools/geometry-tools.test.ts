import { expect, test } from 'vitest';
import type { Tool, ToolContext } from '../tool.ts';
import { angleTool, geometryTool } from './geometry-tools.ts';

const run = async (made: Tool, input: object) => made.run(input, {} as ToolContext);
const calculate = (formula: string, values: object) => run(geometryTool(), { formula, values });
const solve = (relation: string, ...angles: (string | number)[]) => run(angleTool(), { relation, angles });

test.each<[string, object, string]>([
  ['triangle_base_height', { base: 6, height: 4 }, 'area = 12'],
  [
    'triangle_sides',
    { a: 3, b: 4, c: 5 },
    'area = 6, perimeter = 12, angle_a = 36.86989765, angle_b = 53.13010235, angle_c = 90',
  ],
  [
    'triangle_two_sides_angle',
    { a: 2, b: 2, angle: 60 },
    'third_side = 2, area = 1.732050808, perimeter = 6, angle_a = 60, angle_b = 60, angle_c = 60',
  ],
  [
    'triangle_side_two_angles',
    { side: 1, opposite_angle: 30, angle: 90 },
    'third_angle = 60, side_opposite_angle = 2, side_opposite_third = 1.732050808',
  ],
  ['hypotenuse', { leg: 5, other_leg: 12 }, 'hypotenuse = 13'],
  ['leg', { hypotenuse: '5*sqrt(2)', other_leg: 5 }, 'leg = 5'],
  ['rectangle', { width: 3, height: 4 }, 'area = 12, perimeter = 14, diagonal = 5'],
  ['trapezoid', { a: 4, b: 6, height: 3 }, 'area = 15, midline = 5'],
  ['rhombus', { diagonal: 6, other_diagonal: 8 }, 'area = 24, side = 5'],
  [
    'regular_polygon',
    { sides: 6, side: 2 },
    'area = 10.39230485, perimeter = 12, apothem = 1.732050808, interior_angle = 120',
  ],
  ['circle', { radius: 1 }, 'area = 3.141592654, circumference = 6.283185307'],
  ['sector', { radius: 6, turn: 60 }, 'arc = 6.283185307, area = 18.84955592, chord = 6'],
  ['segment_between', { x1: 0, y1: 0, x2: -3, y2: 4 }, 'length = 5, middle_x = -1.5, middle_y = 2'],
  ['proportion', { a: 2, b: 3, c: 4 }, 'd = 6'],
  ['cone', { radius: 3, height: 4 }, 'volume = 37.69911184, surface = 75.39822369'],
])('%s of %j', async (formula, values, result) => {
  expect(await calculate(formula, values)).toBe(result);
});

test.each<[string, object, string]>([
  ['triangle_sides', { a: 1, b: 2, c: 5 }, 'no triangle has the sides 1, 2, 5'],
  ['circle', { radius: -1 }, 'radius is -1; it must be above 0'],
  ['circle', { diameter: 2 }, 'values are needed for radius; these are given: diameter'],
  ['circle', { radius: 'process' }, 'undefined variable: process'],
  ['leg', { hypotenuse: 3, other_leg: 4 }, 'the hypotenuse is the longest side'],
  ['ellipse', {}, 'formula is one of triangle_base_height'],
  ['toString', {}, 'formula is one of'],
])('%s of %j has no result, in words', async (formula, values, message) => {
  await expect(calculate(formula, values)).rejects.toThrow(message);
});

test.each<[string, readonly (string | number)[], string]>([
  ['triangle', ['2x+10', 'x', '50'], 'x = 40; the angles are 90, 40, 50'],
  ['supplementary', ['3y', 'y'], 'y = 45; the angles are 135, 45'],
  ['complementary', ['x', '35°'], 'x = 55; the angles are 55, 35'],
  ['equal', ['4x-5', '2x+15'], 'x = 10; the angles are 35, 35'],
  ['exterior', ['5x', '2x', '60'], 'x = 20; the angles are 100, 40, 60'],
  ['inscribed', ['x', 100], 'x = 50; the angles are 50, 100'],
  ['around_a_point', ['120', '150', 'x'], 'x = 90; the angles are 120, 150, 90'],
  ['polygon', ['x', 'x', 'x', 'x', 'x'], 'x = 108; the angles are 108, 108, 108, 108, 108'],
  ['triangle', [60, 60, 60], 'the angles fit'],
  ['triangle', [60, 60, 70], 'the angles do not fit: they are off by 10 degrees'],
])('%s %j', async (relation, angles, result) => {
  expect(await solve(relation, ...angles)).toBe(result);
});

test.each<[string, readonly string[], string]>([
  ['triangle', ['x', 'y', '50'], 'one letter may be unknown; these are: x, y'],
  ['triangle', ['x', '50'], 'triangle takes 3 angles; 2 are given'],
  ['equal', ['x', 'x+1'], 'does not depend on x'],
  ['equal', ['x^2', 'x+1'], 'not linear in x'],
  ['sideways', ['x'], 'relation is one of triangle'],
])('%s %j has no result, in words', async (relation, angles, message) => {
  await expect(solve(relation, ...angles)).rejects.toThrow(message);
});

import type { Turn } from 'rollcall';
import { expect, test } from 'vitest';
import { curveSvg } from './curve-svg.ts';
import { hasDependentCalls, type Measurement } from './measure.ts';
import { plotCurve, scoreTable } from './report.ts';
import { notReady } from './warm-start.ts';

const plain = (lines: readonly string[]) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
  lines.map((line) => line.replace(/\u001b\[\d+m/g, ''));

const calls = (...pairs: readonly (readonly [expression: string, result: string])[]): { turns: Turn[] } => ({
  turns: pairs.map(([expression, result]) => ({
    segment: 0,
    start: 0,
    end: 0,
    finish: 'stop',
    toolCalls: [],
    toolRuns: [{ call: { id: '', name: 'calculator', arguments: { expression } }, result, milliseconds: 0 }],
    problems: [],
  })),
});

test('calls depend on one another when a later one takes an earlier result', () => {
  expect(hasDependentCalls(calls(['12*7', '84'], ['84-20', '64']))).toBe(true);
  expect(hasDependentCalls(calls(['12*7', '84'], ['6951-84', '6867']))).toBe(true);
  expect(hasDependentCalls(calls(['2*3', '6'], ['4*5', '20'], ['6+20', '26']))).toBe(true);
  expect(hasDependentCalls(calls(['12*7', '84'], ['12-20', '-8']))).toBe(false);
  expect(hasDependentCalls(calls(['84-20', '64']))).toBe(false);
  expect(hasDependentCalls(calls(['12*7', '84'], ['840-20', '820']))).toBe(false);
});

test('a model is ready when families without a habit are mostly solved and every family sometimes', () => {
  const measured = (byFamily: Record<string, number>) => ({ byFamily }) as unknown as Measurement;
  const sampled = measured({ sold: 0.4, more: 0.05 });
  expect(notReady(measured({ sold: 0.9, more: 0 }), sampled)).toBeUndefined();
  expect(notReady(measured({ sold: 0.6, more: 0.9 }), sampled)).toMatch(/60 % of "sold"/);
  expect(notReady(measured({ sold: 0.9, more: 0 }), measured({ sold: 0.4, more: 0 }))).toMatch(
    /0 % of "more"/,
  );
});

test('the table shows before and after in columns of equal width', () => {
  const score = (accuracy: number) => ({ accuracy, validToolCalls: 1, callsPerTrajectory: 2.25 });
  const lines = plain(scoreTable({ test: { before: score(0.45), after: score(0.987) } }));
  expect(lines).toHaveLength(3);
  expect(new Set(lines.map((line) => line.length)).size).toBe(1);
  expect(lines[2]).toMatch(/^test +45\.0 % +98\.7 % +100\.0 % +100\.0 % +2\.25 +2\.25$/);
});

test('the plot puts a point at its step and height', () => {
  const lines = plain(
    plotCurve(
      [
        { step: 0, validation: 0 },
        { step: 10, validation: 1, training: 0.5 },
      ],
      11,
    ),
  );
  expect(lines[0]).toMatch(/100 % │ +●$/);
  expect(lines[5]).toMatch(/│ +·$/);
  expect(lines[10]).toMatch(/0 % │● *$/);
});

test('the drawing has a line per curve and escapes its title', () => {
  const points = [
    { step: 0, validation: 0.5 },
    { step: 10, validation: 1, training: 0.5 },
  ];
  const svg = curveSvg('a < b', [
    { name: 'one', colour: '#0a7', points },
    { name: 'two', colour: '#a07', points },
  ]);
  expect(svg).toContain('a &lt; b');
  expect(svg.match(/<polyline points="56\.0,190\.0 676\.0,40\.0"/g)).toHaveLength(2);
  expect(svg.match(/<circle/g)).toHaveLength(2);
});

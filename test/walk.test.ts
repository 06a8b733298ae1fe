import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { functionsOf, withEntries } from './walk/functions.js';
import { type Entered, filesOf, lineOf, readPage, returnsIn, stepsOf } from './walk/walk-page.ts';

const steps = stepsOf(readPage());

// `npm run docs:walk` writes the lines anew.
test('each step of the walk is a function at its line', () => {
  expect(steps.length).toBeGreaterThan(30);
  expect(steps).toEqual(steps.map((step) => ({ ...step, line: lineOf(step) })));
});

test('a run of one task takes these steps in this order, and goes back as often as the page says', () => {
  const names: Record<string, string[]> = {};
  for (const { file, name } of steps) names[file] = [...new Set([...(names[file] ?? []), name])];
  const loaders = ['./bin/register.js', './test/walk/register.js'].flatMap((file) => ['--import', file]);
  const printed = execFileSync(process.execPath, [...loaders, 'test/walk/one-task.ts'], {
    encoding: 'utf8',
    env: { ...process.env, WALK: JSON.stringify(names) },
  });
  const files = filesOf(steps, JSON.parse(printed) as Entered[]);
  const stated = /goes through (\d+) files and goes back (\d+) times/.exec(readPage());
  expect([new Set(files).size, returnsIn(files)]).toEqual(stated?.slice(1).map(Number));
  expect(returnsIn(files)).toBeLessThanOrEqual(20);
}, 120_000);

test('a step out of order is named, and a way back is counted', () => {
  const step = (file: string, name: string) => ({ file, name, line: 1 });
  const trace = [
    { id: 'a.ts one' },
    { id: 'b.ts two', caller: 'a.ts' },
    { id: 'c.ts three', caller: 'a.ts' },
    { id: 'a.ts four', caller: 'c.ts' },
  ];
  const walk = [step('a.ts', 'one'), step('b.ts', 'two'), step('c.ts', 'three'), step('a.ts', 'four')];
  expect(filesOf(walk, trace)).toEqual(['a.ts', 'b.ts', 'a.ts', 'c.ts', 'a.ts']);
  expect(returnsIn(filesOf(walk, trace))).toBe(2);
  expect(() => filesOf([walk[2]!, walk[1]!], trace)).toThrow('does not enter two of b.ts');
});

test('functions are found by their names, and instrumented without moving a line', () => {
  const source = [
    'class A {',
    '  #b() {',
    '    return 1;',
    '  }',
    '}',
    'const c = {',
    '  d: () => 2,',
    '};',
  ].join('\n');
  expect(functionsOf(source).map(({ name, line }) => [name, line])).toEqual([
    ['A.#b', 2],
    ['c.d', 7],
  ]);
  expect(withEntries(source, ['#b', 'd'], (name) => name)).toBe(
    source
      .replace('{\n    return', '{globalThis.enter?.("#b");\n    return')
      .replace('=> 2', '=> (globalThis.enter?.("d"),2)'),
  );
});

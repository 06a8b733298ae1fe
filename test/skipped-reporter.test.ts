import { expect, test } from 'vitest';
import { skippedLines } from './skipped-reporter.ts';

const need = (name: string, files: RegExp, isThere: boolean) => ({
  name,
  files,
  command: `install ${name}`,
  isThere: () => isThere,
});

test('skipped tests are told with what they need and the command that provides it', () => {
  const needs = [need('bwrap', /sandbox/, false), need('chromium', /browser/, true)];
  const files = ['test/sandbox/a.test.ts', 'test/sandbox/a.test.ts', 'test/browser.test.ts', 'src/b.test.ts'];
  expect(skippedLines(files, needs)).toEqual([
    '',
    'Not run on this machine:',
    '  2 tests need bwrap: install bwrap',
    '  skipped where they do not apply: test/browser.test.ts (1), src/b.test.ts (1)',
  ]);
  expect(skippedLines([], needs)).toEqual([]);
});

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { FROM_VERL, renderFromVerl } from '../scripts/from-verl.ts';

test('docs/from-verl.md is what the table says; npm run docs:from-verl makes it again', () => {
  expect(readFileSync(FROM_VERL, 'utf8')).toBe(renderFromVerl());
});

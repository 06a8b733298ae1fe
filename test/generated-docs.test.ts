import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { FROM_VERL, renderFromVerl } from '../scripts/from-verl.ts';
import { OPTIONS_PAGE, renderOptionsPage } from '../scripts/options-page.ts';

test('docs/from-verl.md is what the table of keys says', () => {
  expect(readFileSync(FROM_VERL, 'utf8')).toBe(renderFromVerl());
});

test('docs/options.md is what the schema says', () => {
  expect(readFileSync(OPTIONS_PAGE, 'utf8')).toBe(renderOptionsPage());
});

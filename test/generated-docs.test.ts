import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { FROM_VERL, renderFromVerl } from '../scripts/from-verl.ts';
import { OPTIONS_PAGE, renderOptionsPage } from '../scripts/options-page.ts';
import {
  type Measured,
  PAGES,
  readMeasured,
  renderMeasured,
  withMeasured,
} from '../scripts/quickstart-page.ts';
import { quickstartStamp } from '../scripts/quickstart-stamp.ts';

test('docs/from-verl.md is what the table of keys says', () => {
  expect(readFileSync(FROM_VERL, 'utf8')).toBe(renderFromVerl());
});

test('docs/options.md is what the schema says', () => {
  expect(readFileSync(OPTIONS_PAGE, 'utf8')).toBe(renderOptionsPage());
});

test('the quick start pages show what was measured, and say truly whether the code has changed since', () => {
  const blocks = renderMeasured(readMeasured(), quickstartStamp());
  for (const page of PAGES) {
    const text = readFileSync(page, 'utf8');
    const renew = `${page}: npm run docs:quickstart renews the sentence, npm run prove quickstart the figures`;
    expect(text, renew).toBe(withMeasured(text, blocks[page]));
  }
}, 60_000);

test('figures measured with other code are shown as that', () => {
  const measured: Measured = { ...readMeasured(), stamp: 'aaa' };
  for (const page of PAGES) {
    expect(renderMeasured(measured, 'aaa')[page]).toContain('has not changed since (stamp `aaa`)');
    expect(renderMeasured({ ...measured, confirmed: { stamp: 'bbb', seeds: [1] } }, 'bbb')[page]).toContain(
      'with the code as it is (stamp `bbb`) seed 1 gave the same figures to the digit',
    );
    expect(renderMeasured(measured, 'bbb')[page]).toContain(
      'measured at stamp `aaa`; the code that decides them has changed since',
    );
  }
});

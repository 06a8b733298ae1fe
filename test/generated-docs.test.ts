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
import { MODELS, SCALE_PAGE, syncSeconds, withTables } from '../scripts/scale-page.ts';

test('docs/from-verl.md is what the table of keys says', () => {
  expect(readFileSync(FROM_VERL, 'utf8')).toBe(renderFromVerl());
});

test('docs/options.md is what the schema says', () => {
  expect(readFileSync(OPTIONS_PAGE, 'utf8')).toBe(renderOptionsPage());
});

test('the computed tables of docs/scale.md are what their inputs give', () => {
  const page = readFileSync(SCALE_PAGE, 'utf8');
  expect(page).toBe(withTables(page));
});

test('by hand: 70B in bf16 is 141.2 GB, and 32 servers read it 32 times at 20 GB/s', () => {
  const { files, copied, group } = syncSeconds(MODELS.find(({ name }) => name === '70B')!, 32);
  expect(files).toBeCloseTo((33 * 141.2) / 20, 6);
  expect(copied).toBeCloseTo(90.368, 6);
  expect(group).toBeCloseTo(2.824, 6);
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

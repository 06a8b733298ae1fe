/**
 * Writes what `npm run prove quickstart` measured into docs/quickstart.md and README.md, and whether the code that decides
 * it has changed since: `npm run docs:quickstart`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { quickstartStamp } from './quickstart-stamp.ts';

export const MEASURED = 'examples/quickstart/measured.json';
export const PAGES = ['docs/quickstart.md', 'README.md'] as const;

/** Shares of the problems solved, and of the calls that are valid, from 0 to 1. */
export interface MeasuredSeed {
  readonly seed: number;
  /** Of the whole command, without the time to compile the kernels. */
  readonly seconds: number | null;
  readonly test: { readonly before: number; readonly after: number };
  readonly unseen: { readonly before: number; readonly after: number };
  readonly validCalls: { readonly before: number; readonly after: number };
  readonly tokens: { readonly sft: number; readonly rollout: number };
  /** Of the first seeds only: they take longer than the run. */
  readonly controls?: Readonly<Record<ControlName, number>>;
}

export interface Measured {
  /** Of the sources when it was measured; null for figures older than stamps. */
  readonly stamp: string | null;
  /** Sources changed later, with which these seeds gave the same figures to the digit. */
  readonly confirmed?: { readonly stamp: string; readonly seeds: readonly number[] };
  /** Which kernels, how many threads. */
  readonly engine: string;
  readonly seeds: readonly MeasuredSeed[];
}

const CONTROLS = {
  moreSupervised: 'as many seconds of more demonstrations',
  shuffledRewards: 'rewards shuffled within each group',
  trainedThenWithoutTool: 'trained, then asked without the calculator',
  grpoWithoutTool: 'GRPO without the calculator',
} as const;
export type ControlName = keyof typeof CONTROLS;
export const CONTROL_NAMES = Object.keys(CONTROLS) as ControlName[];

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
const millions = (tokens: number) => `${(tokens / 1e6).toFixed(2)}M`;
const table = (rows: readonly (readonly string[])[]) => {
  const [head, ...body] = rows;
  return [head!, head!.map(() => '---'), ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
};

function freshness({ stamp, confirmed }: Measured, now: string): string {
  if (stamp === now) return `The code that decides these figures has not changed since (stamp \`${stamp}\`).`;
  if (confirmed?.stamp === now) {
    const seeds = `seed${confirmed.seeds.length > 1 ? 's' : ''} ${confirmed.seeds.join(' and ')}`;
    return (
      `These figures were measured at stamp \`${stamp}\`; with the code as it is (stamp \`${now}\`) ${seeds} ` +
      'gave the same figures to the digit.'
    );
  }
  const then = stamp === null ? 'before stamps were kept' : `at stamp \`${stamp}\``;
  return `These figures were measured ${then}; the code that decides them has changed since.`;
}

function seedsTable({ seeds }: Measured): string {
  const time = ({ seconds }: MeasuredSeed) => (seconds === null ? '–' : `${seconds.toFixed(0)} s`);
  const shares = (of: (value: (one: MeasuredSeed) => number) => string) => [
    of(({ test }) => test.before),
    of(({ test }) => test.after),
    of(({ unseen }) => unseen.before),
    of(({ unseen }) => unseen.after),
    of(({ validCalls }) => validCalls.after),
  ];
  return table([
    [
      'seed',
      'test before',
      'test after',
      'unseen before',
      'unseen after',
      'valid calls after',
      'tokens: warm start, rollouts',
      'time',
    ],
    ...seeds.map((one) => [
      String(one.seed),
      ...shares((value) => percent(value(one))),
      `${millions(one.tokens.sft)}, ${millions(one.tokens.rollout)}`,
      time(one),
    ]),
    ['mean', ...shares((value) => percent(mean(seeds.map(value)))), '', ''],
  ]);
}

function controlsTable({ seeds }: Measured): string {
  const controlled = seeds.filter(({ controls }) => controls);
  const row = (name: string, of: (value: (one: MeasuredSeed) => number) => string) => [
    name,
    of(({ test }) => test.after),
    ...CONTROL_NAMES.map((control) => of(({ controls }) => controls![control])),
  ];
  return table([
    ['seed', 'GRPO', ...Object.values(CONTROLS)],
    ...controlled.map((one) => row(String(one.seed), (value) => percent(value(one)))),
    row('mean', (value) => percent(mean(controlled.map(value)))),
  ]);
}

/** What stands between the markers of each page. */
export function renderMeasured(
  measured: Measured,
  now: string,
): Readonly<Record<(typeof PAGES)[number], string>> {
  const { seeds, engine } = measured;
  const names = seeds.map(({ seed }) => seed).join(', ');
  const change = (of: (one: MeasuredSeed) => { readonly before: number; readonly after: number }) => [
    percent(mean(seeds.map((one) => of(one).before))),
    percent(mean(seeds.map((one) => of(one).after))),
  ];
  return {
    'docs/quickstart.md': [
      seedsTable(measured),
      `Engine: ${engine}. ${freshness(measured, now)}`,
      '![Accuracy by step, by seed](images/quickstart-curves.svg)',
      'These controls show what does not explain the gain. Each starts from the same warm start; figures are accuracy on the\nsame test problems:',
      controlsTable(measured),
    ].join('\n\n'),
    'README.md': [
      table([
        [`mean of seeds ${names}`, 'after the warm start', 'after 24 steps of GRPO'],
        ['test problems, new numbers', ...change(({ test }) => test)],
        ['unseen wordings and number ranges', ...change(({ unseen }) => unseen)],
        ['valid tool calls', ...change(({ validCalls }) => validCalls)],
      ]),
      `\`npm run prove quickstart\` writes this table. ${freshness(measured, now)}`,
    ].join('\n\n'),
  };
}

const BLOCK = /(<!-- measured[^>]*-->\n)[\s\S]*?(\n<!-- \/measured -->)/;

/** The page with its block as it should be. */
export function withMeasured(page: string, block: string): string {
  if (!BLOCK.test(page)) throw new Error('the page has no <!-- measured --> block');
  return page.replace(BLOCK, (_, open: string, close: string) => `${open}\n${block}\n${close}`);
}

export const readMeasured = () => JSON.parse(readFileSync(MEASURED, 'utf8')) as Measured;

export function writeQuickstartPages(): void {
  const blocks = renderMeasured(readMeasured(), quickstartStamp());
  for (const page of PAGES) writeFileSync(page, withMeasured(readFileSync(page, 'utf8'), blocks[page]));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeQuickstartPages();

import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { reasonOf, rightOf, shown, usualOf } from '../src/lib/setting.ts';
import { PLAIN } from '../src/options/plain-options.ts';
import { KNOWN_OPTIONS } from '../src/options/schema.ts';

/** Writes docs/options.md from the schema: `npm run docs:options`. `--check` only compares. */
export const OPTIONS_PAGE = 'docs/options.md';

const cell = (text: string) => text.replaceAll('|', '\\|');

function table(isShown: (path: string) => boolean): string[] {
  return [
    '| option | default | takes | why this default |',
    '| --- | --- | --- | --- |',
    ...[...KNOWN_OPTIONS]
      .filter(([path]) => isShown(path))
      .map(([path, schema]) => {
        const takes = rightOf(schema).replace(/^use /, '');
        return `| \`${path}\` | \`${cell(shown(usualOf(schema)))}\` | ${cell(takes)} | ${cell(reasonOf(schema))} |`;
      }),
  ];
}

export function renderOptionsPage(): string {
  const isPlain = (path: string) => path.split('.')[0]! in PLAIN;
  return `${[
    '<!-- Made by scripts/options-page.ts from src/options/schema.ts; do not edit. -->',
    '',
    '# Which options does a run have?',
    '',
    'The same table is printed by `rollcall options --explain`. `rollcall options FILE.yaml name=value …` prints what a file and',
    'overrides resolve to. A wrong value or an unknown name is an error that says what would be right.',
    '',
    '## In every run',
    '',
    "Given to `train({ … })` as nested values, in YAML, or on the command line (`limits.turns=4`). verl's names for them are in",
    '[from-verl.md](from-verl.md).',
    '',
    ...table(isPlain),
    '',
    '## In a run file written as data',
    '',
    'In YAML and on the command line. A program passes a value instead: a dataset, an agent, rewards, an algorithm, servers.',
    '',
    ...table((path) => !isPlain(path)),
  ].join('\n')}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const text = renderOptionsPage();
  if (process.argv.includes('--check')) {
    if (readFileSync(OPTIONS_PAGE, 'utf8') !== text)
      throw new Error(`${OPTIONS_PAGE} is stale; npm run docs:options`);
  } else writeFileSync(OPTIONS_PAGE, text);
}

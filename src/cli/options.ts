import type { Command } from 'commander';
import { reasonOf, shown, valueAt } from '../lib/setting.ts';
import { KNOWN_OPTIONS } from '../options/schema.ts';
import { resolveWords, splitWords } from './given-run.ts';

/** `rollcall options`: every option with its default; `--explain` adds the reason for it. */
export function registerOptions(program: Command): void {
  program
    .command('options')
    .description('every option with its default; with a YAML file or overrides, what they resolve to')
    .argument('[words...]', 'a YAML file, and overrides such as limits.turns=4 or data.train_batch_size=256')
    .option('--explain', 'why each default is what it is')
    .action(async (words: string[], { explain }: { explain?: boolean }) => {
      const { options, given, notes, refused } = await resolveWords(splitWords(words));
      for (const [path, schema] of KNOWN_OPTIONS) {
        const from = given.get(path);
        console.log(
          `${path} = ${shown(valueAt(options, path))}${from && from !== path ? `  (${from})` : ''}`,
        );
        if (explain) console.log(`    ${reasonOf(schema)}`);
      }
      for (const note of notes) console.log(`# ${note}`);
      for (const line of refused) console.log(`# refused: ${line}`);
    });
}

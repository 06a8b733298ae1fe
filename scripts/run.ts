/**
 * `npm run prove NAME` and `npm run bench NAME`: finds the script by its file name and runs it in this process. What a
 * script is for is the first sentence of its first comment. Whatever happens, the last line is a verdict in JSON.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { nearest } from '../src/lib/nearest.ts';
import { concludeFailed, hasConcluded } from './verdict.ts';

/** Where each kind of script is, and what its file names begin with. Helpers of benches are in folders below. */
const KINDS: Readonly<Record<string, { readonly folder: string; readonly prefix: string }>> = {
  prove: { folder: 'scripts', prefix: 'prove-' },
  bench: { folder: 'bench', prefix: '' },
};

function scriptsOf(kind: string): ReadonlyMap<string, string> {
  const { folder, prefix } = KINDS[kind]!;
  const files = readdirSync(folder).filter((file) => file.startsWith(prefix) && file.endsWith('.ts'));
  return new Map(files.sort().map((file) => [file.slice(prefix.length, -3), join(folder, file)]));
}

function purposeOf(file: string): string {
  const comment = /\/\*\*([\s\S]*?)\*\//.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  const text = comment
    .replace(/^\s*\* ?/gm, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return /^.*?[.:](?= |$)/.exec(text)?.[0].replace(/:$/, '.') ?? text;
}

function list(kind: string, scripts: ReadonlyMap<string, string>): void {
  console.log(`npm run ${kind} NAME [-- --quick] [-- FLAGS]\n`);
  for (const [name, file] of scripts) console.log(`  ${name.padEnd(12)} ${purposeOf(file)}`);
  console.log(
    '\n--quick is a short variant. The last line is JSON; exit code 1 says that an aim was missed.',
  );
}

async function run(file: string, words: readonly string[]): Promise<void> {
  process.argv = [process.argv[0]!, resolve(file), ...words];
  const failed = (error: unknown) => {
    console.error(error);
    if (!hasConcluded()) concludeFailed(error instanceof Error ? error.message : String(error));
    process.exit(1);
  };
  process.on('uncaughtException', failed);
  process.on('exit', () => {
    if (!hasConcluded()) concludeFailed('it ended without a verdict');
  });
  await import(pathToFileURL(resolve(file)).href).catch(failed);
}

const [kind = 'prove', name, ...words] = process.argv.slice(2);
const scripts = scriptsOf(kind);
const file = name === undefined ? undefined : scripts.get(name);
if (file !== undefined) {
  await run(file, words);
} else if (name === undefined || name === '--help') {
  list(kind, scripts);
} else {
  console.error(
    `no ${kind} script is called ${name}; the nearest is ${nearest(name, [...scripts.keys()])}\n`,
  );
  list(kind, scripts);
  process.exitCode = 1;
}

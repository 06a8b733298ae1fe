import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import ts from 'typescript';
import { beforeAll, expect, test } from 'vitest';

/** The files that a user's import may name. */
const ENTRIES = [
  'src/index.ts',
  'testing/index.ts',
  ...readdirSync('src/exports').map((file) => `src/exports/${file}`),
];

interface Export {
  readonly entry: string;
  readonly name: string;
}

let exported: Export[];
beforeAll(() => {
  const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.');
  const program = ts.createProgram(
    ENTRIES.map((entry) => resolve(entry)),
    options,
  );
  const checker = program.getTypeChecker();
  exported = ENTRIES.flatMap((entry) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(resolve(entry))!)!;
    return checker.getExportsOfModule(module).map((symbol) => ({ entry, name: symbol.name }));
  });
}, 60_000);

test('the root exports at most 40 names', () => {
  const names = exported.filter(({ entry }) => entry === 'src/index.ts').map(({ name }) => name);
  expect(names.length).toBeGreaterThan(20);
  expect(names.length, names.join(' ')).toBeLessThanOrEqual(40);
});

test('a name is exported from one entry', () => {
  const entriesOf = new Map<string, string[]>();
  for (const { entry, name } of exported) entriesOf.set(name, [...(entriesOf.get(name) ?? []), entry]);
  expect([...entriesOf].filter(([, entries]) => entries.length > 1)).toEqual([]);
});

import { readdirSync, readFileSync } from 'node:fs';
import { posix, resolve } from 'node:path';
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
  /** What is declared, behind all re-exports. */
  readonly symbol: ts.Symbol;
  readonly comment: string;
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
    return checker.getExportsOfModule(module).map((one) => {
      const symbol = one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one;
      const comment = ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim();
      return { entry, name: one.name, symbol, comment };
    });
  });
}, 180_000);

test('the root exports at most 40 names', () => {
  const names = exported.filter(({ entry }) => entry === 'src/index.ts').map(({ name }) => name);
  expect(names.length).toBeGreaterThan(20);
  expect(names.length, names.join(' ')).toBeLessThanOrEqual(40);
});

test('a name means one thing, wherever it is imported from', () => {
  const meanings = new Map<string, Set<ts.Symbol>>();
  for (const { name, symbol } of exported) meanings.set(name, (meanings.get(name) ?? new Set()).add(symbol));
  expect([...meanings].filter(([, symbols]) => symbols.size > 1).map(([name]) => name)).toEqual([]);
});

test('every export has a comment that is a sentence', () => {
  const isSentence = (comment: string) => /^(?:[A-Z0-9`]|verl's )[\s\S]+[.:)]/.test(comment);
  const isModule = ({ symbol }: Export) => (symbol.flags & ts.SymbolFlags.ValueModule) !== 0; // `errors`
  const missing = exported.filter((one) => !isModule(one) && !isSentence(one.comment));
  expect(missing.map(({ entry, name }) => `${entry}: ${name}`)).toEqual([]);
});

test('the examples import only the package by its name, other packages and themselves', () => {
  const files = readdirSync('examples', { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'));
  const outside = files.flatMap((file) =>
    ts
      .preProcessFile(readFileSync(`examples/${file}`, 'utf8'))
      .importedFiles.map(({ fileName }) => fileName)
      .filter((target) => posix.join(posix.dirname(file), target).startsWith('../'))
      .map((target) => `${file} imports ${target}`),
  );
  expect(files).toContain('quickstart/quickstart.ts');
  expect(outside).toEqual([]);
});

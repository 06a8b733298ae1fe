/** The modules of `src/` and what they import, read by TypeScript's own parser. */
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';

export interface Import {
  /** Types only: nothing of the module is loaded. */
  readonly typeOnly: boolean;
  /** As written, such as `../types.ts`. */
  readonly target: string;
}

/** Every relative module that a source names: imports, re-exports, `import('…')` of values and types, and workers. */
export function importsOf(file: string, source: string): Import[] {
  const found: Import[] = [];
  const add = (target: ts.Node | undefined, typeOnly: boolean, ending = '') => {
    if (!target || !ts.isStringLiteralLike(target) || !target.text.startsWith('.')) return;
    found.push({ typeOnly, target: target.text + ending });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeOnly(node.importClause));
    if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, isTypeOnly(node));
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true);
    if (ts.isCallExpression(node)) {
      const { expression, arguments: given } = node;
      if (expression.kind === ts.SyntaxKind.ImportKeyword) add(given[0], false);
      if (ts.isIdentifier(expression) && expression.text === 'startWorker') add(given[0], false, '.ts');
    }
    if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'URL') {
      const path = node.arguments?.[0];
      if (path && ts.isStringLiteralLike(path) && path.text.endsWith('.ts')) add(path, false);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.Latest));
  return found;
}

function isTypeOnly(clause: ts.ImportClause | ts.ExportDeclaration | undefined): boolean {
  if (!clause) return false; // `import './x.ts'` loads it
  if (clause.isTypeOnly) return true;
  if (ts.isImportClause(clause) && clause.name) return false;
  const names = ts.isImportClause(clause) ? clause.namedBindings : clause.exportClause;
  if (!names || ts.isNamespaceImport(names) || ts.isNamespaceExport(names)) return false;
  return names.elements.length > 0 && names.elements.every((one) => one.isTypeOnly);
}

/** Sources by their path in `src/`, tests left out. */
export const sources = () =>
  new Map(
    readdirSync('src', { recursive: true, encoding: 'utf8' })
      .map((file) => file.replaceAll('\\', '/'))
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .map((file) => [file, readFileSync(`src/${file}`, 'utf8')]),
  );

/** Which nodes each node imports, types included. `nodeOf` makes files into what is looked at, such as folders. */
export function graphOf(files: ReadonlyMap<string, string>, nodeOf = (file: string) => file) {
  const graph = new Map<string, Set<string>>();
  for (const [file, source] of files) {
    const from = nodeOf(file);
    const edges = graph.get(from) ?? new Set();
    graph.set(from, edges);
    for (const { target } of importsOf(file, source)) {
      const to = nodeOf(posix.join(posix.dirname(file), target));
      if (to !== from) edges.add(to);
    }
  }
  return graph;
}

/** Sets of nodes that can all reach one another (Tarjan 1972), those of one node left out; each sorted. */
export function cyclesOf(graph: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node)!);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node)!, low.get(next)!));
    }
    if (low.get(node) !== index.get(node)) return;
    const together = stack.splice(stack.indexOf(node));
    if (together.length > 1) cycles.push(together.sort());
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return cycles.sort();
}

import type { SchemaTree } from 'hyparquet';
import type { ParquetColumn } from './parquet-column.ts';

/** Puts rows together from leaf columns whose cursors stand at the row. */
export type ReadValue = () => unknown;

/**
 * A reader for one field of the schema. `definition` and `repetition` count the optional and repeated elements of the
 * path above it; `columns` gives the decoded leaf of a path.
 */
export function compileField(
  node: SchemaTree,
  columns: ReadonlyMap<string, ParquetColumn>,
  definition = 0,
  repetition = 0,
): ReadValue {
  const leaves = leavesOf(node, columns);
  if (node.element.repetition_type === 'REPEATED') {
    return compileRepeated(
      node,
      columns,
      definition,
      repetition,
      compileBody(node, columns, definition + 1, repetition + 1),
    );
  }
  const isOptional = node.element.repetition_type === 'OPTIONAL';
  const own = definition + (isOptional ? 1 : 0);
  const body = compileBody(node, columns, own, repetition);
  if (!isOptional || node.children.length === 0) return body;
  const [first] = leaves;
  return () => {
    if (first!.definition() >= own) return body();
    for (const leaf of leaves) leaf.skip();
    return null;
  };
}

/** The field itself, once it is known to be there. */
function compileBody(
  node: SchemaTree,
  columns: ReadonlyMap<string, ParquetColumn>,
  definition: number,
  repetition: number,
): ReadValue {
  const [only] = node.children;
  if (!only) {
    const leaf = columns.get(node.path.join('.'))!;
    return () => leaf.next();
  }
  const kind = node.element.converted_type ?? node.element.logical_type?.type;
  const holdsRepeated = node.children.length === 1 && only.element.repetition_type === 'REPEATED';
  if (kind === 'LIST' && holdsRepeated) {
    const [element] = only.children;
    // The usual three levels, list<element>; or the older two, where the repeated field is the element.
    const item =
      element && only.children.length === 1
        ? compileField(element, columns, definition + 1, repetition + 1)
        : compileBody(only, columns, definition + 1, repetition + 1);
    return compileRepeated(only, columns, definition, repetition, item);
  }
  if ((kind === 'MAP' || kind === 'MAP_KEY_VALUE') && holdsRepeated && only.children.length === 2) {
    const pair = compileBody(only, columns, definition + 1, repetition + 1);
    const pairs = compileRepeated(only, columns, definition, repetition, pair);
    const [key, value] = only.children.map((child) => child.element.name);
    return () =>
      Object.fromEntries(
        (pairs() as Record<string, unknown>[]).map((entry) => [String(entry[key!]), entry[value!]]),
      );
  }
  const fields = node.children.map(
    (child) => [child.element.name, compileField(child, columns, definition, repetition)] as const,
  );
  return () => {
    const struct: Record<string, unknown> = {};
    for (const [name, read] of fields) struct[name] = read();
    return struct;
  };
}

function compileRepeated(
  node: SchemaTree,
  columns: ReadonlyMap<string, ParquetColumn>,
  definition: number,
  repetition: number,
  item: ReadValue,
): ReadValue {
  const leaves = leavesOf(node, columns);
  const first = leaves[0]!;
  return () => {
    const items: unknown[] = [];
    if (first.definition() <= definition) {
      for (const leaf of leaves) leaf.skip();
      return items;
    }
    do items.push(item());
    while (first.repetition() === repetition + 1);
    return items;
  };
}

function leavesOf(node: SchemaTree, columns: ReadonlyMap<string, ParquetColumn>): ParquetColumn[] {
  if (node.children.length === 0) return [columns.get(node.path.join('.'))!];
  return node.children.flatMap((child) => leavesOf(child, columns));
}

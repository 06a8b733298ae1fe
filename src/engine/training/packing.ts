/** Rows of different lengths become one run of tokens: nothing is computed for padding or twice. */
import { TrainerError } from '../../errors.ts';
import type { Row } from '../../training/trainer.ts';

export interface Packing {
  /** What is computed: each row's own tokens up to the last one a target needs. */
  readonly ids: Int32Array;
  readonly positions: Int32Array;
  /** The row that each of them belongs to. */
  readonly owners: Int32Array;
  /** Rows with own tokens, for attention. A row's prefix is in another row's tokens. */
  readonly rowStart: Int32Array;
  readonly rowLength: Int32Array;
  readonly prefixStart: Int32Array;
  readonly prefixLength: Int32Array;
  /** Targets, row by row: the position of the predicting state in `ids`, and the id it should predict. */
  readonly targetStates: Int32Array;
  readonly targetIds: Int32Array;
}

export interface RowLimits {
  readonly vocabulary: number;
  readonly contextTokens: number;
}

export function checkRows(rows: readonly Row[], limits: RowLimits): void {
  for (const [index, row] of rows.entries()) checkRow(rows, row, index, limits);
}

/** Expects rows that `checkRows` has passed. */
export function packRows(rows: readonly Row[]): Packing {
  const roots = resolvePrefixes(rows);
  const used = rows.map(({ targets }) => targets.lastIndexOf(1));
  const own = rows.map((_, index) => Math.min(roots[index]!.length, Math.max(0, used[index]!)));
  for (const [index, root] of roots.entries()) {
    if (root.length > 0) used[root.row] = Math.max(used[root.row]!, own[index]!);
  }

  const start: number[] = [];
  let tokens = 0;
  for (const index of rows.keys()) {
    start.push(tokens);
    tokens += Math.max(0, used[index]! - own[index]!);
  }
  const ids = new Int32Array(tokens);
  const positions = new Int32Array(tokens);
  const owners = new Int32Array(tokens);
  const active = [...rows.keys()].filter((index) => used[index]! > own[index]!);
  for (const index of active) {
    ids.set(rows[index]!.ids.subarray(own[index]!, used[index]!), start[index]!);
    owners.fill(index, start[index]!, start[index]! + used[index]! - own[index]!);
    for (let position = own[index]!; position < used[index]!; position++) {
      positions[start[index]! + position - own[index]!] = position;
    }
  }
  return {
    ids,
    positions,
    owners,
    rowStart: Int32Array.from(active, (index) => start[index]!),
    rowLength: Int32Array.from(active, (index) => used[index]! - own[index]!),
    prefixStart: Int32Array.from(active, (index) => (own[index]! > 0 ? start[roots[index]!.row]! : 0)),
    prefixLength: Int32Array.from(active, (index) => own[index]!),
    ...packTargets(rows, (index, position) =>
      position < own[index]! ? start[roots[index]!.row]! + position : start[index]! + position - own[index]!,
    ),
  };
}

/** Divides rows into parts of about `tokens` tokens, rows that share a prefix together, with their indices. */
export function splitRows(
  rows: readonly Row[],
  tokens: number,
): { readonly rows: Row[]; readonly indices: number[] }[] {
  const families: number[][] = [];
  const familyOf: number[] = [];
  for (const [index, { prefix }] of rows.entries()) {
    const family = prefix ? familyOf[prefix.row]! : families.push([]) - 1;
    familyOf.push(family);
    families[family]!.push(index);
  }
  const parts: number[][] = [];
  let room = 0;
  for (const family of families) {
    const size = family.reduce(
      (sum, index) => sum + rows[index]!.ids.length - (rows[index]!.prefix?.length ?? 0),
      0,
    );
    if (parts.length === 0 || size > room) {
      parts.push([]);
      room = tokens;
    }
    room -= size;
    parts.at(-1)!.push(...family);
  }
  return parts.map((indices) => {
    const place = new Map(indices.map((index, at) => [index, at]));
    const part = indices.map((index) => {
      const { prefix, ...row } = rows[index]!;
      return prefix ? { ...row, prefix: { row: place.get(prefix.row)!, length: prefix.length } } : row;
    });
    return { rows: part, indices };
  });
}

function packTargets(rows: readonly Row[], stateAt: (row: number, position: number) => number) {
  const count = rows.reduce((sum, { targets }) => sum + countOnes(targets), 0);
  const targetStates = new Int32Array(count);
  const targetIds = new Int32Array(count);
  let next = 0;
  for (const [index, { ids, targets }] of rows.entries()) {
    for (let position = targets.indexOf(1); position > 0; position = targets.indexOf(1, position + 1)) {
      targetStates[next] = stateAt(index, position - 1);
      targetIds[next++] = ids[position]!;
    }
  }
  return { targetStates, targetIds };
}

/**
 * Whose tokens a row's first tokens are. Attention reads a prefix from one stretch of one row, so where the
 * prefix row has a prefix itself, only what both have from the first row is shared.
 */
function resolvePrefixes(rows: readonly Row[]): { row: number; length: number }[] {
  const resolved: { row: number; length: number }[] = [];
  for (const { prefix } of rows) {
    if (!prefix) resolved.push({ row: -1, length: 0 });
    else {
      const root = resolved[prefix.row]!;
      if (root.length === 0) resolved.push({ row: prefix.row, length: prefix.length });
      else resolved.push({ row: root.row, length: Math.min(prefix.length, root.length) });
    }
  }
  return resolved;
}

function checkRow(rows: readonly Row[], row: Row, index: number, limits: RowLimits): void {
  const { ids, targets, prefix, images } = row;
  const wrong = (what: string) => new TrainerError(`row ${index}: ${what}`);
  if (ids.length === 0) throw wrong('it has no ids');
  if (ids.length > limits.contextTokens) {
    throw wrong(`${ids.length} tokens are more than the model's context of ${limits.contextTokens}`);
  }
  const bad = ids.findIndex((id) => id < 0 || id >= limits.vocabulary);
  if (bad >= 0) throw wrong(`ids[${bad}] is ${ids[bad]}; the vocabulary has ${limits.vocabulary} ids`);
  if (targets.length !== ids.length) throw wrong(`${targets.length} targets for ${ids.length} ids`);
  if (targets[0]) throw wrong('position 0 is a target, but nothing stands before it to predict it');
  if (targets.some((target) => target > 1)) throw wrong('targets are 0 or 1');
  if (images?.length) throw wrong('it shows images, and this model reads text only');
  if (prefix) checkPrefix(rows, row, prefix, index, wrong);
}

function checkPrefix(
  rows: readonly Row[],
  { ids }: Row,
  { row, length }: { readonly row: number; readonly length: number },
  index: number,
  wrong: (what: string) => TrainerError,
): void {
  if (!Number.isInteger(row) || row < 0 || row >= index) {
    throw wrong(`prefix.row is ${row}; an earlier row is needed`);
  }
  const other = rows[row]!.ids;
  if (!Number.isInteger(length) || length < 0 || length > ids.length || length > other.length) {
    throw wrong(`prefix.length is ${length}; the rows have ${ids.length} and ${other.length} ids`);
  }
  for (let position = 0; position < length; position++) {
    if (ids[position] !== other[position]) {
      throw wrong(
        `ids[${position}] is ${ids[position]}, but row ${row} has ${other[position]}: no shared prefix`,
      );
    }
  }
}

function countOnes(targets: Uint8Array): number {
  let count = 0;
  for (const target of targets) count += target;
  return count;
}

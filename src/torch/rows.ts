/** Rows, outputs and gradients in the shapes that travel: all rows one after another, one number per target. */
import { TrainerError } from '../errors.ts';
import type { Gradients, Output, Outputs, Row } from '../training/trainer.ts';
import type { WireArray } from './frames.ts';

export function rowArrays(rows: readonly Row[]): Map<string, WireArray> {
  const tokens = rows.reduce((sum, { ids }) => sum + ids.length, 0);
  const ids = new Int32Array(tokens);
  const targets = new Uint8Array(tokens);
  const prefixes = new Int32Array(2 * rows.length);
  let at = 0;
  for (const [index, row] of rows.entries()) {
    if (row.images?.length) {
      throw new TrainerError(`row ${index}: it shows images, but this model is one of text`);
    }
    if (row.targets.length !== row.ids.length) {
      throw new TrainerError(`row ${index}: ${row.targets.length} targets for ${row.ids.length} ids`);
    }
    ids.set(row.ids, at);
    targets.set(row.targets, at);
    prefixes.set(row.prefix ? [row.prefix.row, row.prefix.length] : [-1, 0], 2 * index);
    at += row.ids.length;
  }
  return new Map<string, WireArray>([
    ['ids', { shape: [tokens], data: ids }],
    ['targets', { shape: [tokens], data: targets }],
    ['lengths', { shape: [rows.length], data: Int32Array.from(rows, (row) => row.ids.length) }],
    ['prefixes', { shape: [rows.length, 2], data: prefixes }],
  ]);
}

/** Converts one number per target to one array per row. */
export function spreadOutputs(
  arrays: ReadonlyMap<string, WireArray>,
  rows: readonly Row[],
  names: readonly Output[],
): Outputs {
  return Object.fromEntries(names.map((name) => [name, spread(arrays.get(name), rows, name)]));
}

function spread(array: WireArray | undefined, rows: readonly Row[], name: Output): Float32Array[] {
  const count = rows.reduce((sum, { targets }) => sum + targets.reduce((ones, one) => ones + one, 0), 0);
  if (!(array?.data instanceof Float32Array) || array.data.length !== count) {
    throw new TrainerError(`the PyTorch worker answered without ${count} numbers of ${name}`);
  }
  let next = 0;
  return rows.map(({ targets }) => {
    const values = new Float32Array(targets.length);
    for (let at = targets.indexOf(1); at >= 0; at = targets.indexOf(1, at + 1))
      values[at] = array.data[next++]!;
    return values;
  });
}

/** From one array per row to one number per target; refuses what does not fit the rows. */
export function gradientArrays(gradients: Gradients, rows: readonly Row[]): Map<string, WireArray> {
  const arrays = new Map<string, WireArray>();
  for (const [name, byRow] of Object.entries(gradients)) {
    if (byRow === undefined) continue;
    if (byRow.length !== rows.length) {
      throw new TrainerError(
        `gradients by ${name} are for ${byRow.length} rows; the pass has ${rows.length}`,
      );
    }
    const values: number[] = [];
    for (const [row, { targets }] of rows.entries()) {
      const array = byRow[row]!;
      if (array.length !== targets.length) {
        throw new TrainerError(
          `gradients by ${name} of row ${row}: ${array.length} numbers for ${targets.length} tokens`,
        );
      }
      for (let at = targets.indexOf(1); at >= 0; at = targets.indexOf(1, at + 1)) values.push(array[at]!);
    }
    arrays.set(name, { shape: [values.length], data: Float32Array.from(values) });
  }
  return arrays;
}

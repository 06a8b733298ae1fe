/** Outputs and gradients between their two shapes: one array per row, and one number per target. */
import { TrainerError } from '../../errors.ts';
import type { Gradients, Output, Row } from '../../training/trainer.ts';
import type { TargetOutputs } from './output-head.ts';

type WritableOutputs = { [K in Output]?: Float32Array[] };

/** Zeros in the shape a trainer answers with: per output one array per row. */
export function emptyOutputs(rows: readonly Row[], outputs: readonly Output[]): WritableOutputs {
  return Object.fromEntries(
    outputs.map((name) => [name, rows.map(({ ids }) => new Float32Array(ids.length))]),
  );
}

/** Converts one number per target to one array per row. */
export function scatterOutputs(
  from: TargetOutputs,
  rows: readonly Row[],
  to: (name: Output, row: number) => Float32Array,
): void {
  for (const [name, values] of Object.entries(from)) {
    let next = 0;
    for (const [row, { targets }] of rows.entries()) {
      const target = to(name as Output, row);
      for (let at = targets.indexOf(1); at > 0; at = targets.indexOf(1, at + 1)) target[at] = values[next++]!;
    }
  }
}

/** Converts one array per row to one number per target; refuses arrays that were not asked for or do not fit. */
export function gatherGradients(
  gradients: Gradients,
  rows: readonly Row[],
  outputs: readonly Output[],
): { [K in Output]?: Float32Array } {
  const gathered: { [K in Output]?: Float32Array } = {};
  for (const [key, arrays] of Object.entries(gradients)) {
    const name = key as Output;
    if (arrays === undefined) continue;
    if (!outputs.includes(name))
      throw new TrainerError(`a gradient by ${name} was given, but ${name} was not asked for`);
    if (arrays.length !== rows.length) {
      throw new TrainerError(
        `gradients by ${name} are for ${arrays.length} rows; the pass has ${rows.length}`,
      );
    }
    const values: number[] = [];
    for (const [row, { targets }] of rows.entries()) {
      const array = arrays[row]!;
      if (array.length !== targets.length) {
        throw new TrainerError(
          `gradients by ${name} of row ${row}: ${array.length} numbers for ${targets.length} tokens`,
        );
      }
      for (let at = targets.indexOf(1); at > 0; at = targets.indexOf(1, at + 1)) values.push(array[at]!);
    }
    gathered[name] = Float32Array.from(values);
  }
  return gathered;
}

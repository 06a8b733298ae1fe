import { TrainerError } from '../errors.ts';
import type { Batch, Sequence } from './batch.ts';
import type { AdamOptions, Output, Pass, Trainer } from './trainer.ts';

/** A number that is not finite, with its place. */
export class NonFiniteError extends TrainerError {
  /** Everything in its forward pass was broken too: the weights are, not the row. */
  readonly weightsBroken: boolean;

  constructor(message: string, { weightsBroken }: { readonly weightsBroken: boolean }) {
    super(message);
    this.weightsBroken = weightsBroken;
  }
}

interface Member {
  readonly sequence: Sequence;
  readonly values: Float64Array;
}

/** Throws, with run, step, trajectory and token, if a number of a forward pass is not finite. */
export function requireFinite(
  what: string,
  members: readonly Member[],
  { batch, run }: { readonly batch: Batch; readonly run?: string | undefined },
): void {
  let [first, broken, total]: [string | undefined, number, number] = [undefined, 0, 0];
  for (const { sequence, values } of members) {
    for (let t = 0; t < values.length; t++) {
      total++;
      if (Number.isFinite(values[t])) continue;
      broken++;
      first ??= `${what} is ${values[t]} at ${placeOf(sequence, sequence.positions[t]!, batch)}`;
    }
  }
  if (first === undefined) return;
  const weightsBroken = broken === total && members.length > 1;
  const rest = weightsBroken
    ? `; so are all ${total} of the same pass, so the weights are broken: load the last checkpoint`
    : broken > 1
      ? `, and at ${broken - 1} more of ${total} tokens of the same pass`
      : '';
  throw new NonFiniteError(`${run ? `run ${run}, ` : ''}step ${batch.step}: ${first}${rest}`, {
    weightsBroken,
  });
}

function placeOf(sequence: Sequence, position: number, batch: Batch): string {
  const { id } = batch.trajectories[sequence.trajectory]!;
  const segment = sequence.segment > 0 ? `segment ${sequence.segment}, ` : '';
  return `trajectory ${id}, ${segment}token ${position} (id ${sequence.ids[position]})`;
}

/**
 * Ends a pass that failed. If passes before it have left a gradient in the trainer (`accumulated`: the options of the
 * step it was meant for), that goes too: the port clears only a non-finite one, so it is made so and cleared.
 */
export async function dropGradient(
  trainer: Trainer,
  pass: Pass,
  output: Output,
  accumulated: AdamOptions | undefined,
): Promise<void> {
  if (!accumulated) return pass.discard();
  const poison = pass.outputs[output]!.map((list) => new Float32Array(list.length).fill(Number.NaN));
  await pass.backward({ [output]: poison });
  await trainer.optimStep(accumulated);
}

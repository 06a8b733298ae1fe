import type { Batch, Sequence } from './batch.ts';
import { requireFinite } from './guard.ts';
import { type MicroBatch, packMicroBatches } from './micro-batches.ts';
import type { Output, Outputs, Row, Trainer } from './trainer.ts';

/** A sequence with its number in the batch, and the group it shares a prompt with. */
export interface GroupedSequence extends Sequence {
  readonly index: number;
  readonly group: number;
}

/** Per sequence of the batch, per trained token. */
export type TokenLists = readonly Float64Array[];

export interface PassContext {
  readonly batch: Batch;
  readonly temperature: number;
  readonly tokensPerMicroBatch: number;
  readonly balance: boolean;
  readonly run?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export function membersOf(batch: Batch): GroupedSequence[] {
  return batch.sequences.map((sequence, index) => ({
    ...sequence,
    index,
    group: batch.trajectories[sequence.trajectory]!.group,
  }));
}

export function packMembers(
  members: readonly GroupedSequence[],
  trainer: Trainer,
  context: PassContext,
): MicroBatch<GroupedSequence>[] {
  return packMicroBatches(members, {
    tokensPerMicroBatch: context.tokensPerMicroBatch,
    balance: context.balance,
    ...(trainer.can.has('prefix') ? { familyOf: ({ group }: GroupedSequence) => group } : {}),
  });
}

/** Outputs of a trainer for the given members; lists of other sequences stay empty. */
export async function scoreMembers<O extends Output>(
  trainer: Trainer,
  members: readonly GroupedSequence[],
  outputs: readonly O[],
  context: PassContext,
  { whose, onRows }: { readonly whose: string; readonly onRows?: (rows: number) => void },
): Promise<Record<O, Float64Array[]>> {
  const lists = {} as Record<O, Float64Array[]>;
  for (const output of outputs) lists[output] = context.batch.sequences.map(() => new Float64Array());
  for (const { members: chosen, rows } of packMembers(members, trainer, context)) {
    context.signal?.throwIfAborted();
    const scored = await trainer.score(rows, passOptions(outputs, context));
    for (const output of outputs) {
      const found = readOutput(scored, output, chosen, whose, context);
      chosen.forEach((member, row) => {
        lists[output][member.index] = found[row]!;
      });
    }
    onRows?.(rows.length);
  }
  return lists;
}

/** One output at the trained tokens of each member of a pass, checked to be finite. */
export function readOutput(
  outputs: Outputs,
  output: Output,
  members: readonly GroupedSequence[],
  whose: string,
  context: PassContext,
): Float64Array[] {
  const lists = members.map(({ positions }, row) => gather(outputs[output]![row]!, positions));
  requireFinite(
    `${whose} ${NAMES[output]}`,
    members.map((sequence, row) => ({ sequence, values: lists[row]! })),
    context,
  );
  return lists;
}

const NAMES: Record<Output, string> = {
  logprob: 'log-prob',
  entropy: 'entropy',
  sumSquares: 'Σπ²',
  value: 'value',
};

/** A prompt to be scored whole. */
export function promptRow(ids: Int32Array): Row {
  return { ids, targets: new Uint8Array(ids.length).fill(1).fill(0, 0, 1) };
}

export function passOptions(outputs: readonly Output[], { temperature, signal }: PassContext) {
  return { temperature, outputs, ...(signal ? { signal } : {}) };
}

export function gather(values: ArrayLike<number>, positions: Int32Array): Float64Array {
  return Float64Array.from(positions, (position) => values[position]!);
}

export function scatter(values: ArrayLike<number>, positions: Int32Array, length: number): Float32Array {
  const full = new Float32Array(length);
  for (let t = 0; t < positions.length; t++) full[positions[t]!] = values[t]!;
  return full;
}

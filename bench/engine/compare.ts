/** Samples of both arithmetics, ours and PyTorch's, in turn; and their ratios. */
import { median } from './median.ts';

export const ARITHMETICS = ['float32', 'bfloat16'] as const;
export type Arithmetic = (typeof ARITHMETICS)[number];

/** A figure's name in an arithmetic: `train1M`, `train1MBfloat16`. */
export const named = (name: string, arithmetic: Arithmetic) =>
  arithmetic === 'float32' ? name : `${name}Bfloat16`;

/**
 * Tokens a second. `ratioX` is of the same arithmetic, `bestX` of the faster one of ours to the faster one of theirs;
 * both are medians of the rounds' ratios.
 */
export async function compare(
  name: string,
  rounds: number,
  ours: (arithmetic: Arithmetic) => Promise<number>,
  theirs?: (arithmetic: Arithmetic) => Promise<number>,
): Promise<Record<string, number>> {
  const samples = { ours: { float32: [], bfloat16: [] }, theirs: { float32: [], bfloat16: [] } } as Record<
    'ours' | 'theirs',
    Record<Arithmetic, number[]>
  >;
  for (let round = 0; round < rounds; round++) {
    for (const arithmetic of ARITHMETICS) {
      samples.ours[arithmetic].push(await ours(arithmetic));
      if (theirs) samples.theirs[arithmetic].push(await theirs(arithmetic));
    }
  }
  const figures: Record<string, number> = {};
  const title = name[0]!.toUpperCase() + name.slice(1);
  for (const arithmetic of ARITHMETICS) {
    figures[named(name, arithmetic)] = median(samples.ours[arithmetic]);
    if (!theirs) continue;
    const other = samples.theirs[arithmetic];
    figures[named(`torch${title}`, arithmetic)] = median(other);
    figures[named(`ratio${title}`, arithmetic)] = median(
      samples.ours[arithmetic].map((own, round) => own / other[round]!),
    );
  }
  if (theirs) {
    const fastest = (of: Record<Arithmetic, number[]>, round: number) =>
      Math.max(...ARITHMETICS.map((arithmetic) => of[arithmetic][round]!));
    figures[`best${title}`] = median(
      Array.from(
        { length: rounds },
        (_, round) => fastest(samples.ours, round) / fastest(samples.theirs, round),
      ),
    );
  }
  return figures;
}

import { createRandom } from '../lib/random.ts';

/**
 * What k of a task's attempts would show. verl draws 1,000 bootstrap samples of k attempts with replacement; for the
 * best and the worst the limit of that is known, so it is computed here without drawing:
 *   P(max of k draws ≤ v) = F(v)^k,  F the share of attempts with at most v.
 * Only the majority vote is drawn, from a seed.
 */
export interface AtK {
  readonly mean: number;
  readonly std: number;
}

export function bestAt(values: readonly number[], k: number): AtK {
  const sorted = [...values].sort((a, b) => a - b);
  const n = sorted.length;
  return moments(sorted, (at) => ((at + 1) / n) ** k - (at / n) ** k);
}

export function worstAt(values: readonly number[], k: number): AtK {
  const { mean, std } = bestAt(
    values.map((value) => -value),
    k,
  );
  return { mean: -mean, std };
}

/** Score of the answer that most of k drawn attempts gave; ties go to the answer drawn first. */
export function majorityAt(
  attempts: readonly { readonly answer: string; readonly score: number }[],
  k: number,
  seed: number,
  draws = 1000,
): AtK {
  const random = createRandom(seed);
  const scores = Array.from({ length: draws }, () => {
    const drawn = Array.from({ length: k }, () => random.pick(attempts));
    const votes = new Map<string, { count: number; score: number }>();
    for (const { answer, score } of drawn) {
      const vote = votes.get(answer) ?? { count: 0, score };
      votes.set(answer, { ...vote, count: vote.count + 1 });
    }
    return [...votes.values()].reduce((best, vote) => (vote.count > best.count ? vote : best)).score;
  });
  return moments(scores, () => 1 / draws);
}

/**
 * pass@k (Chen et al. 2021), unbiased: the chance that k attempts drawn without replacement contain a success, with
 * c successes among n attempts: 1 − C(n−c, k) / C(n, k).
 */
export function passAt(successes: number, attempts: number, k: number): number {
  if (attempts - successes < k) return 1;
  let missed = 1;
  for (let at = attempts - successes + 1; at <= attempts; at++) missed *= 1 - k / at;
  return 1 - missed;
}

/** Wilson's interval for a share: 95 % by default. Holds also at 0, at 1 and for few trials. */
export function shareInterval(successes: number, trials: number, z = 1.96): readonly [number, number] {
  if (trials === 0) return [0, 1];
  const share = successes / trials;
  const scale = 1 + z ** 2 / trials;
  const centre = share + z ** 2 / (2 * trials);
  const margin = z * Math.sqrt((share * (1 - share)) / trials + z ** 2 / (4 * trials ** 2));
  return [Math.max(0, (centre - margin) / scale), Math.min(1, (centre + margin) / scale)];
}

/** Normal interval for a mean over tasks. */
export function meanInterval(values: readonly number[], z = 1.96): readonly [number, number] {
  const { mean, std } = moments(values, () => 1 / values.length);
  const margin = values.length > 1 ? (z * std) / Math.sqrt(values.length - 1) : Number.POSITIVE_INFINITY;
  return [mean - margin, mean + margin];
}

/** 2, 4, 8 … up to n, and n itself: the k at which attempts are summed up. */
export function sizesUpTo(n: number): number[] {
  const sizes: number[] = [];
  for (let size = 2; size < n; size *= 2) sizes.push(size);
  return n > 1 ? [...sizes, n] : [];
}

function moments(values: readonly number[], weight: (at: number) => number): AtK {
  let mean = 0;
  let square = 0;
  for (const [at, value] of values.entries()) {
    mean += weight(at) * value;
    square += weight(at) * value ** 2;
  }
  return { mean, std: Math.sqrt(Math.max(0, square - mean ** 2)) };
}

/** Means and deviations in float64, over plain or nested lists. */

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

/** Unbiased (n − 1); 0 for fewer than two values. */
export function sampleDeviation(values: ArrayLike<number>): number {
  if (values.length < 2) return 0;
  const center = mean(values);
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += (values[i]! - center) ** 2;
  return Math.sqrt(squares / (values.length - 1));
}

/** Shifts and scales all lists together to mean 0 and variance 1: (x − μ) / √(σ² + 1e-8). */
export function whiten(lists: readonly Float64Array[]): Float64Array[] {
  const all = flatten(lists);
  if (all.length === 0) return lists.map((list) => list.slice());
  const center = mean(all);
  const scale = Math.sqrt(sampleDeviation(all) ** 2 + 1e-8);
  return lists.map((list) => list.map((value) => (value - center) / scale));
}

export function flatten(lists: readonly ArrayLike<number>[]): Float64Array {
  const all = new Float64Array(lists.reduce((length, list) => length + list.length, 0));
  let at = 0;
  for (const list of lists) {
    all.set(list, at);
    at += list.length;
  }
  return all;
}

/** Largest, smallest and mean; nothing of an empty list. */
export function spread(name: string, values: ArrayLike<number>): Record<string, number> {
  if (values.length === 0) return {};
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = 0; i < values.length; i++) {
    low = Math.min(low, values[i]!);
    high = Math.max(high, values[i]!);
  }
  return { [`${name}/mean`]: mean(values), [`${name}/max`]: high, [`${name}/min`]: low };
}

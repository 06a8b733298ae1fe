/** Beyond e^±20 a ratio says only that something is broken; it is held there, without gradient, and counted. */
export const LOG_RATIO_LIMIT = 20;

/** ρ = π / π_old from log-probs, and dρ/d log π. */
export function ratioOf(logprob: number, old: number): { ratio: number; slope: number; logRatio: number } {
  const difference = logprob - old;
  const logRatio = Math.max(-LOG_RATIO_LIMIT, Math.min(LOG_RATIO_LIMIT, difference));
  const ratio = Math.exp(logRatio);
  return { ratio, slope: logRatio === difference ? ratio : 0, logRatio };
}

export const clamp = (value: number, low: number, high: number) => Math.max(low, Math.min(high, value));

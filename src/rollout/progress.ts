import type { Scored } from '../types.ts';

export interface RolloutProgress {
  readonly finished: number;
  readonly running: number;
  readonly total: number;
  readonly sampledTokens: number;
}

export function countProgress<T>(
  onProgress: ((progress: RolloutProgress) => void) | undefined,
  total: number,
) {
  let finished = 0;
  let running = 0;
  let sampledTokens = 0;
  const tell = () => onProgress?.({ finished, running, total, sampledTokens });
  return {
    started: () => {
      running++;
      tell();
    },
    ended: ({ trajectory }: Scored<T>) => {
      running--;
      finished++;
      for (const { sampled } of trajectory.segments)
        sampledTokens += sampled.reduce((sum, one) => sum + one, 0);
      tell();
    },
  };
}

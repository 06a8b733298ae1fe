import type { Scored } from '../types.ts';

/** How far a rollout is. */
export interface RolloutProgress {
  readonly step: number;
  readonly finished: number;
  readonly running: number;
  readonly total: number;
  readonly sampledTokens: number;
}

export type Progress<T> = ReturnType<typeof countProgress<T>>;

export function countProgress<T>(
  onProgress: ((progress: RolloutProgress) => void) | undefined,
  step: number,
  total: number,
) {
  let finished = 0;
  let running = 0;
  let sampledTokens = 0;
  const tell = () => onProgress?.({ step, finished, running, total, sampledTokens });
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

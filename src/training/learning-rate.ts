/** The learning rate of a step: a share in [0, 1] of the peak rate, by the number of steps taken before it. */
export interface Schedule {
  readonly shape: 'constant' | 'linear' | 'cosine';
  /** Steps over which the rate rises linearly; step 0 takes 1/warmupSteps of the peak, not zero. */
  readonly warmupSteps: number;
  /** The run's length; past it the rate stays at `floor`. Not read when constant. */
  readonly totalSteps: number;
  /** Share of the peak at which a decay ends. */
  readonly floor: number;
}

/** The share of the peak learning rate that a step has. */
export function learningRateShare(schedule: Schedule, step: number): number {
  const { shape, warmupSteps, totalSteps, floor } = schedule;
  if (step < warmupSteps) return (step + 1) / warmupSteps;
  if (shape === 'constant') return 1;
  const decaySteps = totalSteps - warmupSteps;
  const progress = decaySteps > 0 ? Math.min(1, (step - warmupSteps) / decaySteps) : 1;
  const left = shape === 'linear' ? 1 - progress : (1 + Math.cos(Math.PI * progress)) / 2;
  return floor + (1 - floor) * left;
}

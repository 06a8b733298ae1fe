import type { ResolvedOptions } from '../options.ts';
import { learningRateShare } from '../training/learning-rate.ts';

/** The optimizer's settings in a step: the learning rate follows its schedule. */
export function adamAt<T>({ optimizer, steps }: ResolvedOptions<T>, step: number) {
  const share = learningRateShare(
    {
      shape: optimizer.schedule,
      warmupSteps: optimizer.warmupSteps || Math.round(optimizer.warmupShare * steps),
      totalSteps: steps,
      floor: optimizer.finalShare,
    },
    step - 1,
  );
  const { beta1, beta2, epsilon, weightDecay, clipNorm } = optimizer;
  return { learningRate: optimizer.learningRate * share, beta1, beta2, epsilon, weightDecay, clipNorm };
}

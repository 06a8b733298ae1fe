import { hashSeed } from '../lib/random.ts';
import type { ResolvedOptions } from '../options.ts';
import type { UpdateOptions } from '../training/update-options.ts';
import { runPaths } from '../watch/run-directory.ts';
import { adamAt } from './adam-at.ts';
import type { Weights } from './weights.ts';

/** All that the update of a step needs but its batch. */
export function updateOptions<T>(
  options: ResolvedOptions<T>,
  step: number,
  { models, updateState, canaries }: Pick<Weights, 'models' | 'updateState' | 'canaries'>,
): Omit<UpdateOptions, 'batch'> {
  const { trainer, reference, critic, algorithm } = models;
  const { optimizer, sampling, seed, failures, runDir, signal } = options;
  return {
    trainer,
    ...(reference ? { reference } : {}),
    ...(critic ? { critic } : {}),
    algorithm,
    optimizer: {
      adam: adamAt(options, step),
      miniBatches: optimizer.miniBatches,
      epochs: optimizer.epochs,
      tokensPerMicroBatch: optimizer.tokensPerMicroBatch,
      balance: true,
      shuffle: true,
    },
    temperature: sampling.temperature,
    tokensPerTrajectory: options.limits.tokensPerTrajectory,
    seed: hashSeed(seed, 'update', step),
    ...(updateState ? { state: updateState } : {}),
    ...(canaries ? { prompts: canaries } : {}),
    guard: { onNonFinite: failures.notFinite, directory: runPaths(runDir).setAside, run: runDir },
    ...(signal ? { signal } : {}),
    onProgress: ({ done, total }) => options.onProgress?.({ step, phase: 'training', done, total }),
  };
}

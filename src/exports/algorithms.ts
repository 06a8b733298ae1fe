/** `rollcall/algorithms`: the algorithms, and the parts of an update for loops written by hand. */

export type { Advantages, AdvantageTrajectory } from '../training/advantages/advantage.ts';
export { keepGroup } from '../training/algorithm.ts';
export type { CommonOptions } from '../training/algorithms/define.ts';
export * from '../training/algorithms.ts';
export type { Batch, BatchOptions } from '../training/batch.ts';
export { readBatchFile, type StoredBatch } from '../training/batch-file.ts';
export { checkAlgorithm } from '../training/check-algorithm.ts';
export { type CorrectionOptions, corrections } from '../training/correction.ts';
export { learningRateShare, type Schedule } from '../training/learning-rate.ts';
export type { LossInput, LossOutput } from '../training/losses/loss.ts';
export type { OptimizerOptions } from '../training/optimizer-options.ts';
export { type ReplayReport, replayBatch } from '../training/replay.ts';
export type { UpdateOptions, UpdateResult, UpdateState } from '../training/update-options.ts';
export {
  type Demonstration,
  type SupervisedOptions,
  updateSupervised,
} from '../training/update-supervised.ts';

/** `rollcall/rewards`: ready rewards, judges, reward models, shaping, and when two answers are equal. */

export { choiceEqual, type MathsOptions, mathsEqual } from '../lib/maths/maths-equal.ts';
export type { RewardData, RewardTurn } from '../reward/compute-reward.ts';
export { type JudgeOptions, judgeReward, rankingReward } from '../reward/judge.ts';
export {
  codeReward,
  exactMatchReward,
  f1Reward,
  formatReward,
  gsm8kReward,
  lengthReward,
  mathsReward,
  multipleChoiceReward,
  stepsReward,
} from '../reward/ready-rewards.ts';
export {
  batchReward,
  groupReward,
  type RewardOptions,
  type RewardValue,
  type SharedContext,
  type SharedReward,
  type TrajectoryReward,
} from '../reward/reward.ts';
export { type RewardModelOptions, rewardModel } from '../reward/reward-model.ts';
export { type Shaping, type ShapingOptions, shapingReward } from '../reward/shaping.ts';

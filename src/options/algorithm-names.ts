/** The algorithms by the name that data gives them; src/options/assemble-algorithm.ts has the function of each. */
export const ALGORITHM_NAMES = [
  'grpo',
  'dr-grpo',
  'dapo',
  'rloo',
  'reinforce++',
  'reinforce++-baseline',
  'remax',
  'gpg',
  'opo',
  'pass@k',
  'gdpo',
  'optimal-token-baseline',
  'turn-grpo',
  'process-grpo',
  'ppo',
  'gspo',
  'gmpo',
  'cispo',
  'sapo',
  'dppo',
  'dro',
  'clip-cov',
  'kl-cov',
] as const;

export type AlgorithmName = (typeof ALGORITHM_NAMES)[number];

export const LOSS_NAMES = [
  'clip',
  'gspo',
  'gmpo',
  'cispo',
  'sapo',
  'reinforce',
  'dppo',
  'dro',
  'clip-cov',
  'kl-cov',
] as const;

export type LossName = (typeof LOSS_NAMES)[number];

import { ACTOR_KEYS } from './verl/actor.ts';
import { ALGORITHM_KEYS } from './verl/algorithm.ts';
import { DATA_KEYS } from './verl/data.ts';
import { REWARD_KEYS } from './verl/rewards.ts';
import { ROLLOUT_KEYS } from './verl/rollout.ts';
import { TRAINER_KEYS } from './verl/trainer.ts';
import type { VerlRow } from './verl-row.ts';

/**
 * The one table: every key that a seed names, every key in the scripts that the seeds run, and the keys around them,
 * with what each means here. docs/from-verl.md is made of it (npm run docs:from-verl). Late rows are read in this
 * order.
 */
export const VERL_TABLE: readonly VerlRow[] = [
  ...DATA_KEYS,
  ...ALGORITHM_KEYS,
  ...ACTOR_KEYS,
  ...ROLLOUT_KEYS,
  ...REWARD_KEYS,
  ...TRAINER_KEYS,
];

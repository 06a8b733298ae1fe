import { ACTOR_KEYS } from './keys/actor.ts';
import { ALGORITHM_KEYS } from './keys/algorithm.ts';
import { DATA_KEYS } from './keys/data.ts';
import { REWARD_KEYS } from './keys/rewards.ts';
import { ROLLOUT_KEYS } from './keys/rollout.ts';
import { TORCH_KEYS } from './keys/torch.ts';
import { TRAINER_KEYS } from './keys/trainer.ts';
import type { VerlRow } from './row.ts';

/**
 * The one table: every key that verl's examples use, and the keys around them,
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
  ...TORCH_KEYS,
];

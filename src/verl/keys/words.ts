import { z } from 'zod';
import { kind } from '../../lib/setting.ts';

/** What a key without effect would need. */
export const NEEDS_GPU_TRAINER = 'it needs a trainer on GPUs: trainer.name=torch (docs/torch.md)';
export const NEEDS_SERVER_FLAG =
  'it is not passed on; start the servers with it yourself, and give servers.mode=server and servers.urls';
export const NO_RAY = 'Hydra is not used, and Ray only by `rollcall launch ray` (docs/ray.md)';

/** In verl null and 0 mean no limit. */
export const NO_LIMIT = 1_000_000;
export const orNoLimit = (value: number | null) => (value === null || value === 0 ? NO_LIMIT : value);

/** verl takes one name or a list of them. */
export const oneOrMore = kind(
  z.union([z.string(), z.array(z.string()).readonly()]),
  'use one name, or a list of names',
);
export const asList = (value: z.output<typeof oneOrMore>): readonly string[] =>
  typeof value === 'string' ? [value] : value;

export const KL_ESTIMATORS = {
  low_var_kl: 'k3',
  kl: 'k1',
  k1: 'k1',
  abs: 'abs',
  mse: 'k2',
  k2: 'k2',
  k3: 'k3',
  'k1+': 'k1+',
  'k3+': 'k3+',
  'kl+': 'k1+',
  'low_var_kl+': 'k3+',
};

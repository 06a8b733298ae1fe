/** Whose business a key is, where it is not ours. */
export const TRAINER_BUSINESS =
  "the trainer's business: how a model is spread over GPUs is set where the trainer is started";
export const SERVER_BUSINESS = "the inference server's business: set it where the server is started";
export const RAY_BUSINESS = 'Ray and Hydra have no part here';

/** verl: null and 0 are no limit. */
export const NO_LIMIT = 1_000_000;
export const orNoLimit = (value: number | null) => (value === null || value === 0 ? NO_LIMIT : value);

/** verl takes one name or a list of them. */
export const asList = (value: unknown): readonly string[] =>
  Array.isArray(value) ? (value as string[]) : [String(value)];

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

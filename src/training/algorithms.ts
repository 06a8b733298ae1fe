/** Every algorithm: one file, and one line here. Its definition says the rest. */

export * from './algorithms/cispo.ts';
export * from './algorithms/clip-cov.ts';
export * from './algorithms/dapo.ts';
export * from './algorithms/dppo.ts';
export * from './algorithms/dr-grpo.ts';
export * from './algorithms/dro.ts';
export * from './algorithms/gdpo.ts';
export * from './algorithms/gmpo.ts';
export * from './algorithms/gpg.ts';
export * from './algorithms/grpo.ts';
export * from './algorithms/gspo.ts';
export * from './algorithms/kl-cov.ts';
export * from './algorithms/max-rl.ts';
export * from './algorithms/opo.ts';
export * from './algorithms/optimal-token-baseline.ts';
export * from './algorithms/pass-at-k.ts';
export * from './algorithms/ppo.ts';
export * from './algorithms/process-grpo.ts';
export * from './algorithms/reinforce-plus-plus.ts';
export * from './algorithms/reinforce-plus-plus-baseline.ts';
export * from './algorithms/remax.ts';
export * from './algorithms/rloo.ts';
export * from './algorithms/sapo.ts';
export * from './algorithms/turn-grpo.ts';

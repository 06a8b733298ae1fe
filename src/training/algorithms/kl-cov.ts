import { atLeast, between, setting } from '../../lib/setting.ts';
import { covariancesOf, marks, pickCount } from '../losses/covariance.ts';
import { createOutput } from '../losses/loss.ts';
import { ratioOf } from '../losses/ratio.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * KL-Cov (Cui et al. 2025): GRPO; the max(1, ⌊fraction·N⌋) tokens of largest covariance, which cost most entropy, pay
 * for distance from the old policy.  L = −Aρ + coefficient·|log ρ|
 */
export const klCov = algorithm({
  name: 'kl-cov',
  title: 'KL-Cov',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'kl-cov',
    settings: {
      fraction: setting(between(0, 1), 0.0002, 'Share of the tokens that are tied.'),
      coefficient: setting(atLeast(0), 0.1, 'Strength of the tie to the old policy.'),
    },
    takesRatio: true,
    silentWithoutAdvantage: false,
    compute: (input, { coefficient }) => {
      const output = createOutput(input);
      for (let t = 0; t < input.logprobs.length; t++) {
        const { ratio, slope, logRatio } = ratioOf(input.logprobs[t]!, input.old[t]!);
        const penalty = input.picked?.[t] ? coefficient : 0;
        output.loss[t] = -input.advantages[t]! * ratio + penalty * Math.abs(logRatio);
        output.gradient[t] =
          -input.advantages[t]! * slope + (slope === 0 ? 0 : penalty * Math.sign(logRatio));
      }
      return output;
    },
    pick: (inputs, { fraction }) => {
      const candidates = covariancesOf(inputs).flatMap((list, row) =>
        [...list].map((covariance, t) => ({ row, t, covariance })),
      );
      candidates.sort((a, b) => b.covariance - a.covariance);
      return marks(inputs, candidates.slice(0, pickCount(inputs, fraction)));
    },
    check: ({ fraction }) =>
      fraction === 0 ? 'kl-cov acts on 0 of the tokens; use a share above 0, such as 0.0002' : undefined,
  },
  verl: {
    losses: { kl_cov: {} },
    keys: {
      fraction: 'actor_rollout_ref.actor.policy_loss.kl_cov_ratio',
      coefficient: 'actor_rollout_ref.actor.policy_loss.ppo_kl_coef',
    },
  },
});

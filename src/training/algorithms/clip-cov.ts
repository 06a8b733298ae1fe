import { z } from 'zod';
import { between, kind, setting } from '../../lib/setting.ts';
import { clipLoss, clipSettings } from '../losses/clip.ts';
import { covariancesOf, marks, pickCount } from '../losses/covariance.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

const range = kind(z.tuple([z.number(), z.number()]).readonly(), 'use two numbers, such as [1, 5]');

/**
 * Clip-Cov (Cui et al. 2025): GRPO; of the unclipped tokens with a covariance inside `covariance`, a random
 * max(1, ⌊fraction·N⌋) lose their gradient, which keeps entropy; the rest is PPO's clip.
 */
export const clipCov = algorithm({
  name: 'clip-cov',
  title: 'Clip-Cov',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'clip-cov',
    settings: {
      fraction: setting(between(0, 1), 0.0002, 'Share of the tokens that are cut.'),
      covariance: setting(range, [1, 5], 'Low and high covariance between which a token may be cut.'),
      ...clipSettings(0.2, 0.2),
    },
    takesRatio: true,
    silentWithoutAdvantage: true,
    compute: (input, { low, high }) => {
      const output = clipLoss(input, { low, high });
      input.picked?.forEach((picked, t) => {
        if (!picked) return;
        output.loss[t] = 0;
        output.gradient[t] = 0;
        output.clipped[t] = 1;
      });
      return output;
    },
    pick: (inputs, { fraction, covariance: [least, most], low, high }, random) => {
      const covariances = covariancesOf(inputs);
      const candidates = inputs.flatMap((input, row) => {
        const { clipped } = clipLoss(input, { low, high });
        return [...covariances[row]!].flatMap((covariance, t) =>
          !clipped[t] && covariance > least && covariance < most ? [{ row, t }] : [],
        );
      });
      return marks(inputs, random.shuffle(candidates).slice(0, pickCount(inputs, fraction)));
    },
    check: ({ fraction, covariance }) =>
      fraction === 0
        ? 'clip-cov acts on 0 of the tokens; use a share above 0, such as 0.0002'
        : covariance[0] < covariance[1]
          ? undefined
          : `clip-cov cuts covariances from ${covariance.join(' to ')}; use low before high, such as 1, 5`,
  },
  verl: {
    losses: { clip_cov: {} },
    keys: {
      fraction: 'actor_rollout_ref.actor.policy_loss.clip_cov_ratio',
      covariance: [
        'actor_rollout_ref.actor.policy_loss.clip_cov_lb',
        'actor_rollout_ref.actor.policy_loss.clip_cov_ub',
      ],
    },
  },
});

import { ConfigError } from '../../errors.ts';
import type { Algorithm } from '../algorithm.ts';
import { whiten } from '../statistics.ts';
import { algorithm, SHARED } from './define.ts';

interface PpoOptions {
  readonly critic?: Partial<NonNullable<Algorithm['critic']>>;
  readonly filtration?: Partial<NonNullable<Algorithm['filtration']>>;
}

/**
 * PPO (Schulman et al. 2017) with GAE (Schulman et al. 2015) from a critic, over trained tokens: the token after an
 * observation is the next one.
 *   δ_t = r_t + γ V_{t+1} − V_t,  A_t = δ_t + γλ A_{t+1},  returns = A + V,  then A is whitened over the batch
 * The run brings the critic: a second model, or with `critic: { shared: true }` a value head on the policy. With
 * `filtration` it is PF-PPO (filtration.ts).
 */
export const ppo = algorithm({
  name: 'ppo',
  title: 'PPO',
  advantage: {
    kind: 'gae',
    settings: { discount: SHARED.discount, lambda: SHARED.lambda },
    needs: { values: true },
    estimate: (trajectories, { discount, lambda }) => {
      const raw = trajectories.map(({ tokenRewards, values }) => {
        if (!values)
          throw new ConfigError('GAE needs values, but there is no critic; give one, or use grpo()');
        const advantages = new Float64Array(tokenRewards.length);
        let [nextValue, nextAdvantage] = [0, 0];
        for (let t = tokenRewards.length - 1; t >= 0; t--) {
          const delta = tokenRewards[t]! + discount * nextValue - values[t]!;
          nextAdvantage = delta + discount * lambda * nextAdvantage;
          nextValue = values[t]!;
          advantages[t] = nextAdvantage;
        }
        return advantages;
      });
      const returns = raw.map((advantages, i) =>
        advantages.map((value, t) => value + trajectories[i]!.values![t]!),
      );
      return { advantages: whiten(raw), returns };
    },
  },
  more: ({ critic, filtration }: PpoOptions) => ({
    critic: { clip: 0.5, warmupSteps: 0, shared: false, coefficient: 0.5, ...critic },
    ...(filtration ? { filtration: { method: 'power', power: 2, ...filtration } } : {}),
  }),
  verl: { estimators: ['gae'] },
});

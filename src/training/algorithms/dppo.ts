import { above, oneOf, setting } from '../../lib/setting.ts';
import { clipSettings } from '../losses/clip.ts';
import { ratioOf } from '../losses/ratio.ts';
import { weighted } from '../losses/weighted.ts';
import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * DPPO (2026, arXiv 2602.04879): GRPO's advantage; a token is dropped when the divergence of the two policies, seen as
 * "this token or another", is past a bound in the direction in which the advantage pushes.
 *   L = −c·A·log π,  c = min(ρ, cap) if valid, else 0
 *   tv:  valid if π − π_old ≤ high (A > 0),  π − π_old ≥ −low (A ≤ 0)
 *   kl:  valid if KL(old ‖ new) of the two-way choice ≤ high or π ≤ π_old (A > 0);  ≤ low or π ≥ π_old (A ≤ 0)
 */
export const dppo = algorithm({
  name: 'dppo',
  title: 'DPPO',
  advantage: grpo.definition.advantage,
  loss: {
    kind: 'dppo',
    settings: {
      divergence: setting(oneOf('tv', 'kl'), 'tv', 'Total variation, or KL.'),
      cap: setting(above(0), 20, 'Upper bound of the ratio.'),
      ...clipSettings(0.2, 0.2),
    },
    takesRatio: true,
    silentWithoutAdvantage: true,
    compute: (input, { low, high, divergence, cap }) =>
      weighted(input, (t, output) => {
        const [logprob, logOld] = [input.logprobs[t]!, input.old[t]!];
        const [now, old] = [Math.exp(logprob), Math.exp(logOld)];
        const rises = input.advantages[t]! > 0;
        const bound = rises ? high : low;
        const towards = rises ? now - old : old - now;
        const kl = old * (logOld - logprob) + (1 - old) * Math.log((1 - old + 1e-8) / (1 - now + 1e-8));
        const valid = divergence === 'tv' ? towards <= bound : kl <= bound || towards <= 0;
        const { ratio } = ratioOf(logprob, logOld);
        output.clipped[t] = valid ? 0 : 1;
        output.clippedLower[t] = valid && ratio > cap ? 1 : 0;
        return valid ? Math.min(ratio, cap) : 0;
      }),
  },
  verl: {
    losses: { dppo_tv: { divergence: 'tv' }, dppo_kl: { divergence: 'kl' } },
    keys: { cap: 'actor_rollout_ref.actor.clip_ratio_c' },
  },
});

import { z } from 'zod';
import { ConfigError } from '../../errors.ts';
import { kind, setting } from '../../lib/setting.ts';
import { perGroup, standardize } from '../advantages/groups.ts';
import { whiten } from '../statistics.ts';
import { algorithm } from './define.ts';

const weights = kind(z.record(z.string(), z.number()), 'use a mapping of names to numbers');

/**
 * GDPO (Liu et al. 2026, group reward-decoupled normalisation): every named reward is standardised in its group
 * alone, so that none drowns another; then they are weighted and added, and the batch is whitened.
 *   A = whiten(Σ_k w_k · GRPO(R_k))
 */
export const gdpo = algorithm({
  name: 'gdpo',
  title: 'GDPO',
  advantage: {
    kind: 'gdpo',
    settings: { weights: setting(weights, {}, 'Weight of each reward, by name.') },
    needs: { comparesAttempts: true },
    estimate: (trajectories, { weights }) => {
      const { advantages } = perGroup(trajectories, (rewards, members) => {
        const sums = rewards.map(() => 0);
        for (const [name, weight] of Object.entries(weights)) {
          const parts = standardize(
            members.map(({ rewards: parts }) => partOf(parts, name)),
            true,
          );
          parts.forEach((part, i) => {
            sums[i] = sums[i]! + weight * part;
          });
        }
        return sums;
      });
      return { advantages: whiten(advantages) };
    },
    check({ weights }, { rewardNames }) {
      if (Object.keys(weights).length === 0) {
        return 'gdpo() weighs no reward, so nothing would be learned; give each its weight, such as { correct: 1 }';
      }
      // A reward that gives several numbers has parts: `NAME/part`.
      const unknown = Object.keys(weights).find((name) => !rewardNames?.includes(name.split('/')[0]!));
      return rewardNames && unknown !== undefined
        ? `gdpo() weighs the reward '${unknown}', but the run has ${rewardNames.join(', ') || 'none'}`
        : undefined;
    },
  },
  verl: { estimators: ['gdpo'] },
});

function partOf(rewards: Readonly<Record<string, number>>, name: string): number {
  const part = rewards[name];
  if (part !== undefined) return part;
  throw new ConfigError(
    `gdpo() weighs the reward '${name}', which an attempt does not have; it has ${Object.keys(rewards).join(', ') || 'none'}`,
  );
}

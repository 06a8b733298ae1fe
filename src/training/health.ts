import type { Metrics } from '../types.ts';

/**
 * Spikes and collapse, in words. Each watched number has a slow running mean; a step is compared with the mean
 * before it, and only after a few steps, so that the start of a run says nothing.
 */
export type Watched = Readonly<Record<string, { readonly mean: number; readonly count: number }>>;

interface Watch {
  readonly metric: string;
  readonly alarm: (now: number, usual: number) => string | undefined;
}

const QUIET_STEPS = 5;
const MEMORY_STEPS = 20;

const WATCHES: readonly Watch[] = [
  {
    metric: 'actor/grad_norm',
    alarm: (now, usual) =>
      usual > 0 && now > 8 * usual
        ? `the gradient is ${ratio(now, usual)} times its usual size (${short(now)} against ${short(usual)}); if that repeats, lower the learning rate or clipNorm`
        : undefined,
  },
  {
    metric: 'actor/entropy',
    alarm: (now, usual) =>
      usual > 0 && now < usual / 4
        ? `entropy has collapsed to ${short(now)} from about ${short(usual)}: attempts become copies of one another; raise clip's upper bound, add an entropy bonus or lower the learning rate`
        : usual > 0 && now > 3 * usual
          ? `entropy has jumped to ${short(now)} from about ${short(usual)}: the policy is coming apart; lower the learning rate or the entropy bonus`
          : undefined,
  },
  {
    metric: 'response_length/mean',
    alarm: (now, usual) =>
      now > 2 * usual
        ? `trajectories are ${ratio(now, usual)} times as long as usual (${short(now)} tokens against ${short(usual)}); look at some with: rollcall show`
        : now < usual / 3
          ? `trajectories have shrunk to ${short(now)} tokens from about ${short(usual)}; the model may have learned to stop early`
          : undefined,
  },
  {
    metric: 'training/groups_without_spread',
    alarm: (now, usual) =>
      now > 0.95 && usual <= 0.95
        ? `in ${Math.round(100 * now)} % of groups all attempts got the same reward, so there is almost nothing to learn from; use harder or easier tasks, more attempts, or dynamic sampling`
        : undefined,
  },
  {
    metric: 'critic/score/mean',
    alarm: (now, usual) =>
      usual > 0 && now < usual / 2
        ? `the mean reward has fallen to ${short(now)} from about ${short(usual)}`
        : undefined,
  },
  {
    metric: 'training/rollout_probs_diff_max',
    alarm: (now, usual) =>
      now > 0.5 && usual <= 0.5
        ? `engine and trainer disagree by ${short(now)} on the probability of a token; if they should hold the same weights, check versions and temperature, else use a correction`
        : undefined,
  },
];

const short = (value: number) => String(Number(value.toPrecision(3)));
const ratio = (now: number, usual: number) => short(now / usual);

export function watchHealth(metrics: Metrics, before: Watched): { notices: string[]; watched: Watched } {
  const notices: string[] = [];
  const watched: Record<string, { mean: number; count: number }> = { ...before };
  for (const { metric, alarm } of WATCHES) {
    const now = metrics[metric];
    if (now === undefined || !Number.isFinite(now)) continue;
    const past = before[metric] ?? { mean: 0, count: 0 };
    const said = past.count >= QUIET_STEPS ? alarm(now, past.mean) : undefined;
    if (said) notices.push(said);
    const count = past.count + 1;
    watched[metric] = { count, mean: past.mean + (now - past.mean) / Math.min(count, MEMORY_STEPS) };
  }
  return { notices, watched };
}

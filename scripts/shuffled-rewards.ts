import { createRandom, hashSeed } from '../src/lib/random.ts';
import { type Reward, reward, type TrajectoryReward } from '../src/reward/reward.ts';

/** Each attempt gets the reward of another attempt of its group: it waits until all of them are scored. */
export function shuffledRewards<T>(correct: TrajectoryReward<T>, attempts: number, seed: number): Reward<T> {
  const groups = new Map<string, { scores: number[]; arrived: number; done: (() => void)[] }>();
  return reward<T>('shuffled', async (context) => {
    const { step, taskIndex, attempt } = context.trajectory;
    const name = `${step}/${taskIndex}`;
    const group = groups.get(name) ?? { scores: [], arrived: 0, done: [] };
    groups.set(name, group);
    group.scores[attempt] = Number(await correct.score(context));
    if (++group.arrived < attempts) await new Promise<void>((resolve) => group.done.push(resolve));
    else for (const done of group.done) done();
    const places = Array.from({ length: attempts }, (_, place) => place);
    return group.scores[createRandom(hashSeed('shuffled', seed, name)).shuffle(places)[attempt]!]!;
  });
}

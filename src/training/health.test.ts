import { expect, test } from 'vitest';
import { type Watched, watchHealth } from './health.ts';

const calm = {
  'actor/grad_norm': 1,
  'actor/entropy': 1,
  'response_length/mean': 100,
  'training/groups_without_spread': 0.3,
  'critic/score/mean': 0.5,
};
const after = (steps: number) => {
  let watched: Watched = {};
  for (let step = 0; step < steps; step++) ({ watched } = watchHealth(calm, watched));
  return watched;
};

test('a calm run says nothing, nor does a wild first step', () => {
  expect(watchHealth(calm, after(10)).notices).toEqual([]);
  expect(watchHealth({ ...calm, 'actor/grad_norm': 1000 }, after(2)).notices).toEqual([]);
});

test.each([
  ['actor/grad_norm', 20, /the gradient is 20 times its usual size \(20 against 1\)/],
  ['actor/entropy', 0.1, /entropy has collapsed to 0.1 from about 1/],
  ['actor/entropy', 4, /entropy has jumped to 4/],
  ['response_length/mean', 250, /trajectories are 2.5 times as long as usual/],
  ['response_length/mean', 20, /trajectories have shrunk to 20 tokens/],
  ['training/groups_without_spread', 1, /in 100 % of groups all attempts got the same reward/],
  ['critic/score/mean', 0.1, /the mean reward has fallen to 0.1 from about 0.5/],
])('%s of %d is said in words', (metric, value, sentence) => {
  const { notices } = watchHealth({ ...calm, [metric]: value }, after(10));
  expect(notices).toHaveLength(1);
  expect(notices[0]).toMatch(sentence);
});

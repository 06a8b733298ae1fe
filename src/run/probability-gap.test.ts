import { expect, test } from 'vitest';
import { watchProbabilityGap } from './probability-gap.ts';

const notices = (gaps: readonly number[]) => {
  const watch = watchProbabilityGap();
  return gaps.map((gap) => watch({ 'training/rollout_probs_diff_mean': gap }).length);
};

test('a jump of the gap between trainer and servers is reported once, and rounding never', () => {
  expect(notices([3.5e-7, 7e-4, 7e-4])).toEqual([0, 1, 0]); // as vLLM with an old output layer
  expect(notices([0.0023, 0.0031, 0.0019])).toEqual([0, 0, 0]); // bfloat16
  expect(notices([1e-8, 5e-6])).toEqual([0, 0]);
});

test('the notice says both figures', () => {
  const watch = watchProbabilityGap();
  watch({ 'training/rollout_probs_diff_mean': 3.5e-7 });
  expect(watch({ 'training/rollout_probs_diff_mean': 7e-4 })[0]).toMatch(
    /differ by 7.0e-4 on average, and by 3.5e-7/,
  );
});

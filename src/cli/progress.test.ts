import { expect, test } from 'vitest';
import { describeStep } from './progress.ts';

const metrics = {
  'critic/score/mean': 0.25,
  'val-core/openai/gsm8k/reward/mean@4': 0.5,
  'val-core/a set with a long name/reward/mean@4': 0.75,
  'tools/valid': 0.965,
  'turns/mean': 2.8,
  'num_turns/mean': 5.6,
  'response_length/mean': 690,
  'actor/entropy': 0.08,
  'actor/grad_norm': 0.12,
  'timing_s/step': 4.8,
};

test('the line of a step fits 100 columns with the time left, and keeps what matters most', () => {
  const line = describeStep({ step: 7, steps: 1000, metrics });
  expect(line).toBe('step    7/1000  reward 0.250  gsm8k 0.500  a set with a lo… 0.750  valid 97 %');
  expect(`${line}  1:02:03 left`.length).toBeLessThanOrEqual(100);
  const { 'val-core/a set with a long name/reward/mean@4': _, ...fewer } = metrics;
  expect(describeStep({ step: 7, steps: 30, metrics: fewer })).toBe(
    'step  7/30  reward 0.250  gsm8k 0.500  valid 97 %  turns 2.8  tokens 690  took 4.8 s',
  );
});

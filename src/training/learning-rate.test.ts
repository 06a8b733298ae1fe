import { expect, test } from 'vitest';
import { learningRateShare, type Schedule } from './learning-rate.ts';

const at = (schedule: Partial<Schedule>, steps: readonly number[]) =>
  steps.map((step) =>
    learningRateShare({ shape: 'constant', warmupSteps: 0, totalSteps: 10, floor: 0, ...schedule }, step),
  );

test('a constant rate is the peak at every step', () => {
  expect(at({}, [0, 1, 9, 100])).toEqual([1, 1, 1, 1]);
});

test('a warm-up rises in equal steps and never takes a rate of zero', () => {
  expect(at({ warmupSteps: 4 }, [0, 1, 2, 3, 4])).toEqual([0.25, 0.5, 0.75, 1, 1]);
});

test('a linear decay falls from the peak after the warm-up to its floor at the end', () => {
  const rates = at({ shape: 'linear', warmupSteps: 2, floor: 0.2 }, [2, 6, 10, 11]);
  for (const [index, rate] of [1, 0.6, 0.2, 0.2].entries()) expect(rates[index]).toBeCloseTo(rate, 12);
});

test('a cosine decay is half way down half way through', () => {
  const [start, quarter, half, end] = at({ shape: 'cosine', totalSteps: 8 }, [0, 2, 4, 8]);
  expect(start).toBe(1);
  expect(quarter).toBeCloseTo((1 + Math.SQRT1_2) / 2, 12);
  expect(half).toBeCloseTo(0.5, 12);
  expect(end).toBe(0);
});

test('a run that is all warm-up ends at the floor', () => {
  expect(at({ shape: 'linear', warmupSteps: 10, floor: 0.1 }, [9, 10])).toEqual([1, 0.1]);
});

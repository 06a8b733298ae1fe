import { expect, test } from 'vitest';
import type { Group, Trajectory } from '../types.ts';
import { evaluateGroups, validationMetrics } from './evaluation.ts';

/** A task's attempts by reward; null is an attempt that failed. */
const group = (taskIndex: number, rewards: readonly (number | null)[], dataSource?: string): Group => {
  const task = dataSource === undefined ? {} : { dataSource };
  return {
    taskIndex,
    task,
    attempts: rewards.map((reward, attempt) => {
      const trajectory: Trajectory = {
        id: `${taskIndex}/${attempt}`,
        step: 0,
        taskIndex,
        task,
        attempt,
        segments: [],
        messages: [],
        chats: [],
        turns: [],
        text: reward === 1 ? 'right' : 'wrong',
        end:
          reward === null
            ? { kind: 'failed', boundary: 'infrastructure', message: 'gone' }
            : { kind: 'completed' },
        spans: [],
        extra: {},
      };
      return { trajectory, rewards: reward === null ? {} : { correct: reward }, reward: reward ?? undefined };
    }),
  };
};

test('two attempts a task: mean, best, worst and pass at 2, by hand', () => {
  // Tasks: both right; one of two right; none right.
  const [all] = evaluateGroups([group(0, [1, 1]), group(1, [1, 0]), group(2, [0, 0])], 'test');
  expect(all).toMatchObject({ source: 'test', tasks: 3, attempts: 6, leftOut: 0 });
  expect(all!.means['correct']!.mean).toBeCloseTo(0.5, 12);
  const atK = all!.atK['correct']!;
  expect(atK['mean@2']).toBeCloseTo(0.5, 12);
  expect(atK['best@2/mean']).toBeCloseTo((1 + 0.75 + 0) / 3, 12); // with replacement, as verl draws
  expect(atK['worst@2/mean']).toBeCloseTo((1 + 0.25 + 0) / 3, 12);
  expect(atK['pass@2']).toBeCloseTo(2 / 3, 12); // without replacement
});

test('an attempt that failed for no fault of the model is left out and counted, never a 0', () => {
  const [all] = evaluateGroups([group(0, [1, null]), group(1, [1])], 'test');
  expect(all).toMatchObject({ tasks: 2, attempts: 2, leftOut: 1 });
  expect(all!.means['reward']!.mean).toBe(1);
});

test('data sources are reported apart, under the names of verl', () => {
  const metrics = validationMetrics(
    evaluateGroups([group(0, [1, 0], 'gsm8k'), group(1, [0, 0], 'math')], 'x'),
  );
  expect(metrics['val-core/gsm8k/reward/mean@2']).toBe(0.5);
  expect(metrics['val-core/gsm8k/reward/best@2/mean']).toBe(0.75);
  expect(metrics['val-aux/gsm8k/reward/worst@2/mean']).toBe(0.25);
  expect(metrics['val-aux/gsm8k/correct/mean@2']).toBe(0.5);
  expect(metrics['val-core/math/reward/mean@2']).toBe(0);
});

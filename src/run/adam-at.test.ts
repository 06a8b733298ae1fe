import { expect, test } from 'vitest';
import { arrayDataset } from '../dataset/dataset.ts';
import { type ResolvedOptions, resolveOptions, resolvePlain, type TrainOptions } from '../options.ts';
import { adamAt } from './adam-at.ts';

const warmingUp = (steps: number, optimizer: object) => {
  const options = resolvePlain({ steps, optimizer: { learningRate: 1, ...optimizer } }) as ResolvedOptions;
  return Array.from({ length: steps }, (_, at) => adamAt(options, at + 1).learningRate).filter(
    (rate) => rate < 1,
  ).length;
};

test('the warm-up is a number of steps, or a share of those that the run has', () => {
  expect(warmingUp(1000, { warmupSteps: 11 })).toBe(10);
  expect(warmingUp(1000, { warmupShare: 0.1 })).toBe(99);
  expect(warmingUp(50, { warmupShare: 0.1 })).toBe(4);
  expect(warmingUp(50, {})).toBe(0);
});

test('a warm-up given both ways is refused', () => {
  const parts = {
    model: 'm',
    tasks: arrayDataset([{}]),
    agent: {},
    rewards: [{ name: 'r' }],
    runDir: 'runs/r',
  };
  const given = { ...parts, optimizer: { warmupSteps: 10, warmupShare: 0.1 } } as unknown as TrainOptions;
  expect(() => resolveOptions(given)).toThrow(
    'optimizer.warmupSteps is 10 and optimizer.warmupShare is 0.1; give one',
  );
});

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loop } from './train.ts';

test('the loop written by hand learns', { timeout: 120_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-loop-'));
  const rewards: number[] = [];
  for await (const reward of loop(join(folder, 'model'))) rewards.push(reward);
  await rm(folder, { recursive: true });
  const mean = (list: readonly number[]) => list.reduce((sum, one) => sum + one, 0) / list.length;
  expect(rewards).toHaveLength(25);
  expect(mean(rewards.slice(0, 3))).toBeLessThan(0.7);
  expect(mean(rewards.slice(-3))).toBeGreaterThan(0.95);
});

import { expect, test } from 'vitest';
import { chaos } from './chaos.ts';

test('over servers that fail in every way each trajectory ends once, with sound tokens, and nothing is left', async () => {
  const { ends, replies, failedRequests, kills } = await chaos({
    trajectories: 160,
    seed: 3,
    trouble: 0.3,
    killEveryMs: 700,
  });
  expect(ends['completed']).toBeGreaterThan(110);
  expect(ends['cancelled']).toBeGreaterThan(0);
  expect(ends['truncated (time)']).toBeGreaterThan(0);
  expect(replies).toBeGreaterThan(350);
  expect(failedRequests).toBeGreaterThan(50);
  expect(kills).toBeGreaterThan(0);
}, 120_000);

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { sleep } from '../lib/clock.ts';
import { rateLimit, requestLimiter, tokenBucket } from './rate-limit.ts';

test('a bucket starts full, then gives as it fills, in the order of asking', async () => {
  const clock = virtualClock();
  const take = tokenBucket({ capacity: 10, perSecond: 5, clock });
  const served: [string, number][] = [];
  const ask = (name: string, amount: number) => take(amount).then(() => served.push([name, clock.now()]));
  await Promise.all([ask('a', 6), ask('b', 4), ask('c', 5), ask('d', 1)]);
  expect(served).toEqual([
    ['a', 0],
    ['b', 0],
    ['c', 1000],
    ['d', 1200],
  ]);
});

test('who asks for more than the bucket holds waits for the rest, and those behind wait out the debt', async () => {
  const clock = virtualClock();
  const take = tokenBucket({ capacity: 10, perSecond: 5, clock });
  await take(25);
  expect(clock.now()).toBe(3000); // 15 missing at 5 a second
  await take(5);
  expect(clock.now()).toBe(4000);
});

test('no window of the bucket ever gives more than its capacity and what flowed in', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 8 }), { maxLength: 20 }), async (amounts) => {
      const clock = virtualClock();
      const take = tokenBucket({ capacity: 8, perSecond: 2, clock });
      const served: { at: number; amount: number }[] = [];
      await Promise.all(
        amounts.map((amount) => take(amount).then(() => served.push({ at: clock.now(), amount }))),
      );
      for (const { at: from } of served) {
        for (const { at: to } of served.filter((one) => one.at >= from)) {
          const given = served
            .filter(({ at }) => at >= from && at <= to)
            .reduce((sum, one) => sum + one.amount, 0);
          expect(given).toBeLessThanOrEqual(8 + (2 * (to - from)) / 1000 + 1e-6);
        }
      }
    }),
    { numRuns: 30 },
  );
});

test('one that gives up waiting leaves its share to others', async () => {
  const clock = virtualClock();
  const take = rateLimit(1, clock);
  await take();
  const controller = new AbortController();
  const given = take(controller.signal);
  controller.abort(new Error('no longer'));
  await expect(given).rejects.toThrow('no longer');
  await take();
  expect(clock.now()).toBe(1000);
});

test('concurrency, requests and tokens per minute hold together', async () => {
  const clock = virtualClock();
  const limiter = requestLimiter({ concurrency: 2, requestsPerMinute: 60, tokensPerMinute: 600 }, clock);
  let running = 0;
  let most = 0;
  const began: number[] = [];
  await Promise.all(
    Array.from({ length: 6 }, () =>
      limiter.run(
        async () => {
          began.push(clock.now());
          most = Math.max(most, ++running);
          await sleep(clock, 5);
          running--;
        },
        { tokens: 200 },
      ),
    ),
  );
  expect(most).toBeLessThanOrEqual(2);
  // 600 tokens at once are 3 requests; the rest comes at 10 tokens a second.
  expect(began[2]).toBeLessThan(100);
  expect(began[3]).toBeGreaterThanOrEqual(19_900);
  expect(began[5]).toBeGreaterThanOrEqual(59_900);
});

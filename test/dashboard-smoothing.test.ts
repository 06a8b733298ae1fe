import { expect, test } from 'vitest';
import { smooth } from '../web/src/numbers.ts';

test('smoothing is the exponential mean with its start corrected, and passes over gaps', () => {
  // By hand, weight 0.5: (1)/1; (0.5·1·0.5 + 0.5·3)/(0.75); gap; with 5 as the third value.
  const [first, second, gap, third] = smooth([1, 3, null, 5], 0.5);
  expect(first).toBeCloseTo(1, 12);
  expect(second).toBeCloseTo((0.25 * 1 + 0.5 * 3) / 0.75, 12);
  expect(gap).toBeNull();
  expect(third).toBeCloseTo((0.125 * 1 + 0.25 * 3 + 0.5 * 5) / 0.875, 12);
  expect(smooth([2, 4, 8], 0)).toEqual([2, 4, 8]);
});

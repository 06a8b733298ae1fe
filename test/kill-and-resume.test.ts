import { expect, test } from 'vitest';
import { killAndResume } from './kill-and-resume.ts';

// Twenty random moments: npm run prove resume.
test('a run killed in the middle, also while it writes a checkpoint, resumes to the same results', async () => {
  const trials = await killAndResume([
    [{ afterMs: 1600 }],
    [{ insideCheckpoint: 2 }, { insideCheckpoint: 1 }],
  ]);
  expect(trials.map(({ equal }) => equal)).toEqual([true, true]);
  expect(trials[1]!.stepsAtKill.some((steps) => steps > 0)).toBe(true);
}, 90_000);

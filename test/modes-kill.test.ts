import { expect, test } from 'vitest';
import { listSteps, readStepIndex } from '../src/watch/trajectory-store.ts';
import { killAndResume } from './kill-and-resume.ts';

test('one step off, killed while it writes its second checkpoint, resumes to the same results', async () => {
  const [trial] = await killAndResume([[{ insideCheckpoint: 2 }]], {
    steps: 4,
    overrides: ['mode.kind=one-step-off'],
  });
  expect(trial!.equal).toBe(true);
  expect(trial!.stepsAtKill[0]).toBeGreaterThanOrEqual(2);
}, 120_000);

test('an asynchronous run, killed, trains every group whole and none twice', async () => {
  const [trial] = await killAndResume([[{ insideCheckpoint: 2 }]], {
    overrides: ['mode.kind=asynchronous', 'mode.staleness=2'],
  });
  expect(await listSteps(trial!.run)).toEqual([1, 2, 3, 4, 5, 6]);
  const ids: string[] = [];
  for (const step of [1, 2, 3, 4, 5, 6]) {
    const { trajectories } = await readStepIndex(trial!.run, step);
    expect(trajectories).toHaveLength(16);
    const sizes = new Map<string, number>();
    for (const { id, attempt } of trajectories) {
      const group = groupOf(id, attempt);
      sizes.set(group, (sizes.get(group) ?? 0) + 1);
    }
    expect([...sizes.values()]).toEqual([4, 4, 4, 4]);
    ids.push(...trajectories.map(({ id }) => id));
  }
  expect(new Set(ids).size).toBe(6 * 16);
}, 120_000);

/** Attempts 0 to 3 are the first group of a task in a step, 4 to 7 the second. */
const groupOf = (id: string, attempt: number) =>
  `${id.replace(/\/attempt-.*/, '')}/${Math.floor(attempt / 4)}`;

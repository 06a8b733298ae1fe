import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Activity } from '../lib/activity.ts';
import { realClock } from '../lib/clock.ts';
import { Checkpoints } from './checkpoints.ts';
import { Room } from './room.ts';
import { Timings } from './timings.ts';
import type { Weights } from './weights.ts';

let runDir: string;
beforeEach(async () => {
  runDir = await mkdtemp(join(tmpdir(), 'rollcall-checkpoints-'));
});
afterEach(() => rm(runDir, { recursive: true }));

const latest = () => readFile(join(runDir, 'checkpoints', 'latest'), 'utf8').catch(() => 'none');

/** Models whose files are there at once, but count as written only when the test says so. */
function slowDisk() {
  const ends: ((isWritten: boolean) => void)[] = [];
  const write = async (folder: string) => {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'model.safetensors'), 'weights');
  };
  const weights = {
    version: 1,
    updateState: undefined,
    save: write,
    startSaving: async (folder: string) => {
      await write(folder);
      return { written: new Promise<boolean>((resolve) => ends.push(resolve)) };
    },
  };
  return { weights: weights as unknown as Weights, end: (isWritten: boolean) => ends.shift()!(isWritten) };
}

function checkpointsOf(weights: Weights, told: string[] = []) {
  const clock = realClock();
  const timings = new Timings(clock, 0, new Activity(clock));
  const disk = { gigabytes: Number.POSITIVE_INFINITY, warnBelowGigabytes: 0, hoursForRoom: 1 };
  const room = new Room({ directory: runDir, clock, ...disk, tell: (notice) => told.push(notice) });
  const checkpoints = new Checkpoints({ runDir, keep: 2, step: 0 }, weights, timings, room);
  const standing = { schedule: { finished: [] }, sampler: {} };
  const take = (step: number) => {
    checkpoints.beginUpdate();
    checkpoints.endStep({ step, ...standing } as unknown as Parameters<typeof checkpoints.endStep>[0]);
  };
  return { checkpoints, take };
}

test('steps go on while a checkpoint is written, and the one before stays the latest until it is', async () => {
  const { weights, end } = slowDisk();
  const { checkpoints, take } = checkpointsOf(weights);
  take(1);
  await checkpoints.begin();
  end(true);
  await checkpoints.settle();
  expect(await latest()).toContain('global_step_1');
  take(2);
  await checkpoints.begin();
  take(3);
  expect(await latest()).toContain('global_step_1');
  end(true);
  await checkpoints.settle();
  expect(await latest()).toContain('global_step_2');
});

test('a state that was lost while it was written leaves no checkpoint, and the last step gets one at the end', async () => {
  const { weights, end } = slowDisk();
  const { checkpoints, take } = checkpointsOf(weights);
  take(1);
  await checkpoints.begin();
  end(false);
  await checkpoints.settle();
  expect(await latest()).toBe('none');
  expect(existsSync(join(runDir, 'checkpoints', 'global_step_1.partial'))).toBe(false);
  await checkpoints.finish();
  expect(await latest()).toContain('global_step_1');
});

test('a checkpoint that does not fit while training has moved on is told, and the one before stays', async () => {
  const { weights, end } = slowDisk();
  const told: string[] = [];
  const { checkpoints, take } = checkpointsOf(weights, told);
  take(1);
  await checkpoints.begin();
  end(true);
  await checkpoints.settle();
  const full = async () => ({ written: Promise.reject(new Error('ENOSPC: no space left on device, write')) });
  weights.startSaving = full;
  take(2);
  await checkpoints.begin();
  await checkpoints.settle();
  expect(await latest()).toContain('global_step_1');
  expect(told).toEqual([expect.stringContaining('step 2 gets no checkpoint')]);
  await checkpoints.finish(); // there is room again
  expect(await latest()).toContain('global_step_2');
});

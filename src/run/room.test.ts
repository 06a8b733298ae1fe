import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { Activity } from '../lib/activity.ts';
import { listCheckpoints, runPaths, writeCheckpoint } from '../watch/run-directory.ts';
import { appendChecksums, readChecksums } from '../watch/step-checksums.ts';
import { Room } from './room.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'rollcall-room-'));
});
afterEach(() => rm(directory, { recursive: true }));

function roomWith(options: Partial<ConstructorParameters<typeof Room>[0]> = {}) {
  const clock = virtualClock();
  const activity = new Activity(clock);
  const told: string[] = [];
  const disk = { gigabytes: Number.POSITIVE_INFINITY, warnBelowGigabytes: 0, hoursForRoom: 24 };
  const tell = (notice: string) => void told.push(notice);
  return { room: new Room({ directory, clock, activity, ...disk, tell, ...options }), clock, activity, told };
}

const full = () => Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });

test('a write over a full disk waits, says so in the status, and goes on when there is room', async () => {
  const { room, activity, told } = roomWith();
  const seen: string[] = [];
  let tries = 0;
  const written = await room.during('step 3', async () => {
    seen.push(
      activity
        .waits()
        .map(({ name }) => name)
        .join(),
    );
    if (++tries < 4) throw full();
    return 'written';
  });
  expect(written).toBe('written');
  expect(seen).toEqual(['', 'disk_full', 'disk_full', 'disk_full']);
  expect(activity.waits()).toEqual([]);
  expect(told).toEqual([
    expect.stringContaining('is full: step 3 could not be written'),
    expect.stringContaining('there is room'),
  ]);
});

test('it waits only so long, and not for other errors', async () => {
  const { room, clock } = roomWith({ hoursForRoom: 2 });
  await expect(room.during('step 1', () => Promise.reject(full()))).rejects.toThrow('ENOSPC');
  expect(clock.now() / 3_600_000).toBeCloseTo(2, 1);
  await expect(room.during('step 1', () => Promise.reject(new Error('EIO')))).rejects.toThrow('EIO');
});

test('an abort ends the wait', async () => {
  const stop = new AbortController();
  const { room } = roomWith({ signal: stop.signal });
  const waiting = room.during('step 1', () => Promise.reject(full()));
  stop.abort(new Error('stopped by the user'));
  await expect(waiting).rejects.toThrow('stopped by the user');
});

test('little space is told once, before the disk is full', async () => {
  const { room } = roomWith({ warnBelowGigabytes: 1e9 });
  expect(await room.notices()).toEqual([expect.stringMatching(/has [\d.e+]+ GB left.*checkpoints.keep/)]);
  expect(await room.notices()).toEqual([]);
  expect(await roomWith().room.notices()).toEqual([]);
});

test('a run over its budget loses what was discarded, old trajectories, then old checkpoints, and says so', async () => {
  const { trajectories, discarded } = runPaths(directory);
  await mkdir(trajectories, { recursive: true });
  await mkdir(discarded);
  await writeFile(join(discarded, 'step_1.tokens'), Buffer.alloc(10_000));
  for (let step = 1; step <= 14; step++) {
    await writeFile(join(trajectories, `step_${step}.tokens`), Buffer.alloc(10_000));
    await appendChecksums(directory, step);
  }
  let path = '';
  for (const step of [13, 14]) {
    const fill = (folder: string) => writeFile(join(folder, 'weights'), Buffer.alloc(10_000));
    path = (await writeCheckpoint(directory, step, {}, fill, 2))!;
  }
  const { room, told } = roomWith({ gigabytes: 145_000 / 1e9 });
  await room.checkpointed(path);
  expect(told.splice(0)).toEqual([
    expect.stringMatching(/removed discarded steps, trajectories of steps 1 to 2$/),
  ]);
  expect(await listCheckpoints(directory)).toEqual([13, 14]);
  expect((await readChecksums(directory)).slice(0, 3).map(({ files }) => Object.keys(files).length)).toEqual([
    0, 0, 1,
  ]);
  const { room: small, told: toldSmall } = roomWith({ gigabytes: 50_000 / 1e9 });
  await small.checkpointed(path);
  expect(toldSmall[0]).toMatch(/trajectories of steps 3 to 4, the checkpoints of steps 13; it still takes/);
  expect((await readdir(trajectories)).length).toBe(10);
});

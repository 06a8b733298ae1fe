import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  appendMetrics,
  createRunDirectory,
  discardPast,
  listCheckpoints,
  readLatestCheckpoint,
  readMetrics,
  runPaths,
  writeCheckpoint,
} from './run-directory.ts';

let directory: string;
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'rollcall-run-')), 'run');
  await createRunDirectory(directory, { steps: 3 });
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const line = (step: number) => ({ step, seconds: step * 2, metrics: { reward_mean: step / 10 } });
const fill = (text: string) => (folder: string) => writeFile(join(folder, 'weights'), text);

test('a torn last line is skipped by the reader and gone after a resume', async () => {
  await appendMetrics(directory, line(1));
  await appendFile(runPaths(directory).metrics, '{"format":1,"step":2,"sec');
  expect((await readMetrics(directory)).map(({ step }) => step)).toEqual([1]);
  await discardPast(directory, 1, 'now');
  await appendMetrics(directory, line(2));
  expect((await readMetrics(directory)).map(({ step }) => step)).toEqual([1, 2]);
});

test('a directory that holds a run is not overwritten; one whose run never did a step is', async () => {
  const again = () => createRunDirectory(directory, { steps: 4 });
  await again();
  expect(JSON.parse(await readFile(runPaths(directory).options, 'utf8'))).toMatchObject({ steps: 4 });
  await appendMetrics(directory, line(1));
  await expect(again()).rejects.toThrow(/already holds a run.*--resume/);
  await rm(runPaths(directory).metrics);
  await writeCheckpoint(directory, 1, {}, fill('one'), 1);
  await expect(again()).rejects.toThrow(/already holds a run.*--resume/);
});

describe('checkpoints', () => {
  test('keep the newest, and latest names it', async () => {
    for (const step of [1, 2, 3])
      await writeCheckpoint(directory, step, { version: step }, fill(`w${step}`), 2);
    expect(await listCheckpoints(directory)).toEqual([2, 3]);
    const latest = await readLatestCheckpoint(directory);
    expect(latest).toMatchObject({ step: 3, state: { version: 3 } });
    expect(await readFile(join(latest!.path, 'weights'), 'utf8')).toBe('w3');
  });

  test('one whose writing was cut short does not count', async () => {
    await writeCheckpoint(directory, 1, {}, fill('whole'), 2);
    const dying = writeCheckpoint(directory, 2, {}, () => Promise.reject(new Error('killed')), 2);
    await expect(dying).rejects.toThrow('killed');
    expect(await readLatestCheckpoint(directory)).toMatchObject({ step: 1 });
    await writeCheckpoint(directory, 2, {}, fill('second try'), 2);
    expect(await readLatestCheckpoint(directory)).toMatchObject({ step: 2 });
  });

  test('a latest that names nothing falls back to the newest complete one', async () => {
    await writeCheckpoint(directory, 4, {}, fill('w'), 2);
    await writeFile(runPaths(directory).latest, 'global_step_9\n');
    expect(await readLatestCheckpoint(directory)).toMatchObject({ step: 4 });
  });
});

describe('a checkpoint that changed on the disk', () => {
  const inside = (step: number, file: string) =>
    join(runPaths(directory).checkpoints, `global_step_${step}`, file);
  beforeEach(async () => {
    for (const step of [1, 2])
      await writeCheckpoint(directory, step, { version: step }, fill(`weights ${step}`), 2);
  });

  test.each([
    ['a flipped bit', () => writeFile(inside(2, 'weights'), 'weights 3'), /weights has other bytes/],
    ['a cut file', () => writeFile(inside(2, 'weights'), 'weig'), /weights has 4 bytes where 9 were written/],
    ['a file that is gone', () => rm(inside(2, 'weights')), /weights is missing/],
    ['a state that is cut', () => writeFile(inside(2, 'state.json'), '{"st'), /state.json has 4 bytes/],
    ['a manifest that is gone', () => rm(inside(2, 'manifest.json')), /manifest.json is missing/],
    ['an empty manifest', () => writeFile(inside(2, 'manifest.json'), ''), /manifest.json cannot be read/],
  ])('%s is named, and the one before is taken', async (_, damage, named) => {
    await damage();
    const found = await readLatestCheckpoint(directory);
    expect(found).toMatchObject({ step: 1, state: { version: 1 } });
    expect(found!.damaged).toEqual([expect.stringMatching(named)]);
  });

  test('when every one is damaged, all are named', async () => {
    for (const step of [1, 2]) await writeFile(inside(step, 'weights'), 'x');
    await expect(readLatestCheckpoint(directory)).rejects.toThrow(/step 2 is damaged.*step 1 is damaged/);
  });

  test('what was discarded with it is out of the way of the next', async () => {
    await discardPast(directory, 1, 'stamp');
    expect(await listCheckpoints(directory)).toEqual([1]);
    expect(await readFile(join(runPaths(directory).discarded, 'stamp/global_step_2/weights'), 'utf8')).toBe(
      'weights 2',
    );
  });

  test('one of an earlier version, which has no checksums, is taken as it is', async () => {
    await rm(inside(2, 'manifest.json'));
    await writeFile(inside(2, 'state.json'), '{"format":2,"step":2}');
    expect(await readLatestCheckpoint(directory)).toMatchObject({ step: 2, damaged: [] });
  });
});

test('what lies past the checkpoint moves to discarded', async () => {
  for (const step of [1, 2, 3]) {
    await appendMetrics(directory, line(step));
    await writeFile(join(runPaths(directory).trajectories, `step_${step}.jsonl`), `${step}`);
  }
  const { trajectories } = runPaths(join(runPaths(directory).evaluations, 'unseen'));
  await mkdir(trajectories, { recursive: true });
  for (const step of [0, 2]) await writeFile(join(trajectories, `step_${step}.jsonl`), `evaluation ${step}`);
  await discardPast(directory, 1, 'stamp');
  expect((await readMetrics(directory)).map(({ step }) => step)).toEqual([1]);
  const bin = join(runPaths(directory).discarded, 'stamp');
  expect(await readFile(join(bin, 'step_3.jsonl'), 'utf8')).toBe('3');
  expect((await readFile(join(bin, 'metrics.jsonl'), 'utf8')).trim().split('\n')).toHaveLength(2);
  expect(await readdir(trajectories)).toEqual(['step_0.jsonl']);
  expect(await readFile(join(bin, 'evaluations', 'unseen', 'step_2.jsonl'), 'utf8')).toBe('evaluation 2');
});

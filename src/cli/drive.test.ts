import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tinyModel } from '../../test/tiny-model.ts';
import type { Progress } from '../options.ts';
import { driveTraining } from './drive.ts';
import type { ProgressDisplay } from './progress.ts';

test("a run file's own signal stops its run, and its own onProgress is called as the display is", async () => {
  process.env['MODEL'] = await tinyModel();
  process.env['RUN'] = join(await mkdtemp(join(tmpdir(), 'rollcall-drive-')), 'run');
  const { options } = await import('../../test/runs/letters.ts');
  const stop = new AbortController();
  const told: Progress[] = [];
  const shown: Progress[] = [];
  const said: string[] = [];
  const display: ProgressDisplay = {
    progress: (progress) => shown.push(progress),
    step: () => {},
    say: (line) => said.push(line),
    done: () => {},
  };
  try {
    const finished = await driveTraining(
      { ...options, signal: stop.signal, onProgress: (progress) => void told.push(progress) },
      { display, onStep: ({ step }) => step === 2 && stop.abort() },
    );
    expect(finished).toBe(false);
    expect(process.exitCode).toBe(130);
  } finally {
    process.exitCode = undefined;
  }
  expect(told).toEqual(shown);
  expect(told.length).toBeGreaterThan(0);
  expect(said.join()).toContain('Continue with --resume');
}, 60_000);

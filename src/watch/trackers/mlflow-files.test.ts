import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { mlflow } from './mlflow.ts';

// The layout is MLflow's own; `npm run prove trackers` lets MLflow read it.
test('a run in a folder of files is continued by the next process', async () => {
  const root = join(mkdtempSync(join(tmpdir(), 'rollcall-mlruns-')), 'mlruns');
  const kept = new Map<string, Readonly<Record<string, string>>>();
  const tracked = {
    directory: '/nowhere',
    options: { limits: { turns: 3 } },
    resumedAt: undefined,
    clockBegan: 1_000,
    decode: () => '',
    memory: {
      read: async (key: string) => kept.get(key),
      write: async (key: string, value: Readonly<Record<string, string>>) => void kept.set(key, value),
    },
  };
  const signal = AbortSignal.timeout(10_000);
  const line = (step: number, loss: number) => ({
    step,
    seconds: step,
    time: 5_000 + step,
    metrics: {
      'training/global_step': step,
      'actor/loss': loss,
      'tools/bad': 1,
      'tools/bad/json': 2,
      tools: 3,
    },
  });
  const send = async (lines: ReturnType<typeof line>[], end: 'stopped' | 'finished') => {
    const tracker = mlflow({ uri: `file://${root}`, project: 'sums', experiment: 'first' });
    await tracker.open!(tracked, signal);
    await tracker.log!(lines, signal);
    await tracker.close!(end, signal);
  };
  await send([line(1, 0.5), line(2, Number.NaN)], 'stopped');
  await send([line(2, 9), line(3, 0.25)], 'finished');

  const experiments = readdirSync(root).filter((name) => /^\d+$/.test(name) && name !== '0');
  expect(experiments).toHaveLength(1);
  const experiment = join(root, experiments[0]!);
  expect(parse(readFileSync(join(experiment, 'meta.yaml'), 'utf8'))).toMatchObject({ name: 'sums' });
  const runs = readdirSync(experiment).filter((name) => /^[0-9a-f]{32}$/.test(name));
  expect(runs).toHaveLength(1);
  const run = join(experiment, runs[0]!);
  const meta = parse(readFileSync(join(run, 'meta.yaml'), 'utf8')) as Record<string, unknown>;
  expect(meta).toMatchObject({
    status: 3,
    run_name: 'first',
    start_time: 1_000,
    experiment_id: experiments[0],
  });
  expect(readFileSync(join(run, 'metrics/actor/loss'), 'utf8')).toBe('5001 0.5 1\n5002 nan 2\n5003 0.25 3\n');
  // A name that is also the beginning of another: the later gets a dot.
  expect(readdirSync(join(run, 'metrics')).sort()).toEqual(['actor', 'tools', 'tools.all', 'training']);
  expect(readdirSync(join(run, 'metrics/tools')).sort()).toEqual(['bad', 'bad.json']);
  expect(readFileSync(join(run, 'metrics/tools/bad.json'), 'utf8')).toBe('5001 2 1\n5002 2 2\n5003 2 3\n');
  expect(readFileSync(join(run, 'params/limits/turns'), 'utf8')).toBe('3');
  expect(readFileSync(join(run, 'tags/mlflow.runName'), 'utf8')).toBe('first');
});

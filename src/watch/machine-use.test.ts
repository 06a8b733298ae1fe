import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { realClock } from '../lib/clock.ts';
import { gpuMetrics, readGpuLine, startGpuUse } from './gpu-use.ts';
import { useBetween, watchMachine } from './machine-use.ts';

test('cores are processor time over time, the share is that of all cores, by hand', () => {
  const before = {
    time: 1000,
    processBusy: 500,
    machineBusy: 10_000,
    machineIdle: 90_000,
    processBytes: 1,
    machineBytes: 1,
  };
  // Two seconds on four cores: this process used three of them, others half a core.
  const now = {
    time: 3000,
    processBusy: 6500,
    machineBusy: 17_000,
    machineIdle: 91_000,
    processBytes: 2 ** 30,
    machineBytes: 3 * 2 ** 30,
  };
  expect(useBetween(before, now)).toEqual({
    'perf/cpu_cores': 3,
    'perf/cpu_share': 7 / 8,
    'perf/cpu_memory_used_gb': 3,
    'perf/process_memory_gb': 1,
  });
});

test('a process that computes for a while is seen to', async () => {
  const machine = watchMachine(realClock(), { gpus: { take: () => ({}), close: () => {} } });
  const began = process.cpuUsage();
  const until = performance.now() + 150;
  while (performance.now() < until); // busy
  const { user, system } = process.cpuUsage(began);
  const used = machine.take();
  machine.close();
  const cores = (user + system) / 1000 / 150;
  expect(used['perf/cpu_cores']).toBeGreaterThan(0.5 * cores);
  expect(used['perf/cpu_cores']).toBeLessThan(1.5 * cores);
  expect(used['perf/cpu_share']).toBeGreaterThan(0);
  expect(used['perf/cpu_share']).toBeLessThanOrEqual(1);
});

test('what nvidia-smi prints is read line by line; what it does not know is left out', () => {
  expect(readGpuLine('0, 37, 1024')).toEqual({ gpu: 0, busy: 0.37, megabytes: 1024 });
  expect(readGpuLine('1, [N/A], 1024')).toBeUndefined();
  expect(readGpuLine('No devices were found')).toBeUndefined();
  const two = ['0, 100, 2048', '1, 0, 0', '0, 50, 4096', '1, 50, 2048'].map((line) => readGpuLine(line)!);
  expect(gpuMetrics(two)).toEqual({ 'perf/gpu_share': 0.5, 'perf/gpu_memory_used_gb': 4, 'perf/gpus': 2 });
});

test('a machine without nvidia-smi has no such numbers; with one, its means since the last look', async () => {
  const none = startGpuUse('/nowhere/nvidia-smi');
  await wait(50);
  expect(none.take()).toEqual({});
  none.close();
  const script = join(await mkdtemp(join(tmpdir(), 'rollcall-gpu-')), 'nvidia-smi');
  await writeFile(script, '#!/bin/sh\nprintf "0, 20, 1024\\n0, 40, 3072\\n"\nexec sleep 60\n');
  await chmod(script, 0o755);
  const gpus = startGpuUse(script);
  let taken = {};
  for (let tries = 0; tries < 100 && Object.keys(taken).length === 0; tries++) {
    await wait(20);
    taken = gpus.take();
  }
  gpus.close();
  expect(taken).toEqual({
    'perf/gpu_share': expect.closeTo(0.3, 12),
    'perf/gpu_memory_used_gb': 2,
    'perf/gpus': 1,
  });
});

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Metrics } from '../types.ts';

export interface GpuUse {
  /** Means since the last call; empty where no GPU has been read. */
  take(): Metrics;
  close(): void;
}

/** One GPU at one moment. */
export interface GpuReading {
  readonly gpu: number;
  /** Share of the last moment in which it computed, 0 to 1. */
  readonly busy: number;
  readonly megabytes: number;
}

const EVERY_MS = 1000;
const QUERY = ['--query-gpu=index,utilization.gpu,memory.used', '--format=csv,noheader,nounits'];

/**
 * Runs NVIDIA's own tool in its loop mode: one process for the whole run, a line per GPU and second. Where it is
 * not installed, or prints something else, there are no numbers and nothing waits for them.
 */
export function startGpuUse(command = 'nvidia-smi'): GpuUse {
  let readings: GpuReading[] = [];
  const child = spawn(command, [...QUERY, `--loop-ms=${EVERY_MS}`], { stdio: ['ignore', 'pipe', 'ignore'] });
  child.on('error', () => {}); // not installed
  child.unref(); // a program that forgets to close must still end
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => {
    const reading = readGpuLine(line);
    if (reading) readings.push(reading);
  });
  (child.stdout as { unref?(): void }).unref?.();
  return {
    take: () => {
      const taken = readings;
      readings = [];
      return gpuMetrics(taken);
    },
    close: () => {
      lines.close();
      // Node would signal process 0, which is this whole process group, if the program is not installed.
      if (child.pid !== undefined) child.kill();
    },
  };
}

/** `0, 37, 1024`; a GPU that does not tell says `[N/A]`. */
export function readGpuLine(line: string): GpuReading | undefined {
  const found = /^\s*(\d+),\s*(\d+),\s*(\d+)\s*$/.exec(line);
  if (!found) return undefined;
  const [gpu, percent, megabytes] = found.slice(1).map(Number) as [number, number, number];
  return { gpu, busy: percent / 100, megabytes };
}

/** Busy: mean over time and GPUs. Memory: mean over time, the sum of all GPUs. */
export function gpuMetrics(readings: readonly GpuReading[]): Metrics {
  if (readings.length === 0) return {};
  const gpus = new Set(readings.map(({ gpu }) => gpu)).size;
  const mean = (of: (reading: GpuReading) => number) =>
    readings.reduce((sum, reading) => sum + of(reading), 0) / readings.length;
  return {
    'perf/gpu_share': mean(({ busy }) => busy),
    'perf/gpu_memory_used_gb': (gpus * mean(({ megabytes }) => megabytes)) / 1024,
    'perf/gpus': gpus,
  };
}

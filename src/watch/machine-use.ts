import { cpus, freemem, totalmem } from 'node:os';
import type { Clock } from '../lib/clock.ts';
import type { Metrics } from '../types.ts';
import { type GpuUse, startGpuUse } from './gpu-use.ts';

/** What the counters of process and machine stood at. Times are in milliseconds since some beginning. */
export interface MachineCounters {
  readonly time: number;
  /** User and system time of all threads of this process. */
  readonly processBusy: number;
  /** Over all cores of the machine. */
  readonly machineBusy: number;
  readonly machineIdle: number;
  readonly processBytes: number;
  readonly machineBytes: number;
}

export interface MachineUse {
  /** What was used since the last call, or since the start. */
  take(): Metrics;
  close(): void;
}

/** How busy this machine is during a run. Servers on other machines are not included. */
export function watchMachine(
  clock: Clock,
  {
    read = () => readCounters(clock),
    gpus = startGpuUse(),
  }: { read?: () => MachineCounters; gpus?: GpuUse } = {},
): MachineUse {
  let before = read();
  return {
    take: () => {
      const now = read();
      const used = { ...useBetween(before, now), ...gpus.take() };
      before = now;
      return used;
    },
    close: () => gpus.close(),
  };
}

const GIGABYTE = 2 ** 30; // as verl counts

export function useBetween(before: MachineCounters, now: MachineCounters): Metrics {
  const elapsed = now.time - before.time;
  const busy = now.machineBusy - before.machineBusy;
  const all = busy + now.machineIdle - before.machineIdle;
  return {
    // Counters tick every 10 ms: a shorter time says nothing.
    ...(elapsed > 0 && { 'perf/cpu_cores': (now.processBusy - before.processBusy) / elapsed }),
    ...(all > 0 && { 'perf/cpu_share': busy / all }),
    'perf/cpu_memory_used_gb': now.machineBytes / GIGABYTE,
    'perf/process_memory_gb': now.processBytes / GIGABYTE,
  };
}

function readCounters(clock: Clock): MachineCounters {
  const { user, system } = process.cpuUsage();
  const cores = cpus().map(({ times }) => times);
  const idle = cores.reduce((sum, times) => sum + times.idle, 0);
  const all = cores.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
  return {
    time: clock.now(),
    processBusy: (user + system) / 1000,
    machineBusy: all - idle,
    machineIdle: idle,
    processBytes: process.memoryUsage.rss(),
    machineBytes: totalmem() - freemem(),
  };
}

import { readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second for every program that asks. */
const TICKS_PER_SECOND = 100;

/** Processor time of a process's first thread so far; `undefined` where the platform does not tell. */
export function mainThreadSeconds(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const stat = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8');
    // The second field is the program's name in brackets, and may hold anything; user and system time are 14 and 15.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}

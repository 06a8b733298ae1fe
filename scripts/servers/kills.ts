/** Runs that are killed while a real server is theirs: what is left of it, and for how long. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { LaunchCommand } from '../../src/inference/engine.ts';
import { isPortTaken } from '../../src/inference/port.ts';

export interface Kill {
  /** Whether the server was ready, or still starting. */
  readonly when: 'starting' | 'ready';
  readonly processes: number;
  /** Until they were all gone and the port free. */
  readonly seconds: number;
}

const LIMIT_MS = 30_000;

/** Starts a server in a separate process and ends it by SIGKILL: `afterMs` after its start, or once it is ready. */
export async function killRun(
  command: LaunchCommand,
  logDirectory: string,
  afterMs: number | undefined,
): Promise<Kill> {
  const mark = `ROLLCALL_PROOF=${randomUUID()}`;
  const [name, value] = mark.split('=') as [string, string];
  const script = fileURLToPath(new URL('./launch-and-wait.ts', import.meta.url));
  const marked = { ...command, environment: { ...command.environment, [name]: value } };
  const run = spawn(
    process.execPath,
    ['--import', './bin/register.js', script, JSON.stringify(marked), logDirectory],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const lines = createInterface(run.stdout)[Symbol.asyncIterator]();
  const until = async (word: string) => {
    for (;;) {
      const { done, value: line } = await lines.next();
      if (done)
        throw new Error(`the run ended before it was ${word}; its server's log is in ${logDirectory}`);
      if (line === word) return;
    }
  };
  await until('starting');
  if (afterMs === undefined) await until('ready');
  else await wait(afterMs);
  const processes = processesWith(mark).length;
  run.kill('SIGKILL');
  const killed = performance.now();
  const port = Number(new URL(command.url).port);
  while (processesWith(mark).length > 0 || (await isPortTaken(port))) {
    if (performance.now() - killed > LIMIT_MS) break;
    await wait(50);
  }
  const seconds = (performance.now() - killed) / 1000;
  for (const pid of processesWith(mark)) process.kill(pid, 'SIGKILL'); // a proof that fails leaves nothing behind
  return { when: afterMs === undefined ? 'ready' : 'starting', processes, seconds };
}

/** Processes that have a variable in their environment: a server and everything that it started. */
function processesWith(mark: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(mark);
      } catch {
        return false; // it has ended
      }
    })
    .map(Number);
}

/** A process that runs one point after the other and says what came of each. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RollcallError } from '../../src/errors.ts';
import { ORDER, type Order, type Point } from './point.ts';
import { obey } from './preload.ts';
import { outcomeOf, type Place, type Scenario, shortRun } from './short-runs.ts';

export interface Ask {
  readonly place: Place;
  readonly scenario: Scenario;
  /** Without one the calls of an undisturbed run are written down in `notes`. */
  readonly point?: Point;
  readonly notes?: string;
  /** Everything that an undisturbed run writes is logged there. */
  readonly log?: string;
  /** A run directory, as a power cut left it, to go on with. */
  readonly from?: string;
}

export interface Answer {
  readonly fired: boolean;
  /** Why the disturbed run ended; undefined where it went on to its end. */
  readonly error?: string;
  /** Whether a person could tell from the error what happened. */
  readonly clear?: boolean;
  /** What the run left behind in the end, resumed where it had stopped. */
  readonly outcome: string;
  readonly stray: readonly string[];
  readonly seconds: number;
}

const LONGEST_MS = 100_000;
const stray: string[] = [];
process.on('uncaughtException', (error) => stray.push(`uncaught: ${error.stack}`));
process.on('unhandledRejection', (error) => stray.push(`unhandled: ${(error as Error)?.stack ?? error}`));

process.on('message', async (ask: Ask) => {
  const began = performance.now();
  stray.length = 0;
  const answer = await answerTo(ask).catch((error: Error) => ({
    fired: true,
    outcome: `broken: ${error.stack}`,
  }));
  const seconds = (performance.now() - began) / 1000;
  process.send!({ ...answer, stray: [...stray], seconds } satisfies Answer);
});

async function answerTo({
  place,
  scenario,
  point,
  notes,
  log,
  from,
}: Ask): Promise<Omit<Answer, 'stray' | 'seconds'>> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-fault-'));
  const runDir = join(folder, 'run');
  const file = notes ?? log ?? join(folder, 'fired');
  const run = (resume: boolean) =>
    shortRun(scenario, place, { runDir, resume, signal: AbortSignal.timeout(LONGEST_MS) });
  try {
    if (from !== undefined) {
      cpSync(from, runDir, { recursive: true });
      await run(existsSync(join(runDir, 'options.json')));
      return { fired: true, outcome: await outcomeOf(runDir) };
    }
    if (log !== undefined) give({ kind: 'log', file, below: runDir });
    else
      give(
        point
          ? { kind: 'fail', file, site: point.site, nth: point.nth, fault: point.fault }
          : { kind: 'note', file },
      );
    const error = await run(false).then(
      () => undefined,
      (thrown: unknown) => thrown ?? new Error('nothing was thrown'),
    );
    give(undefined);
    const fired = existsSync(file) && readFileSync(file, 'utf8') !== '';
    if (error !== undefined) await run(existsSync(join(runDir, 'options.json')));
    const outcome = await outcomeOf(runDir);
    if (error === undefined) return { fired, outcome };
    const { message } = error as Error;
    return { fired, error: message, clear: isClear(error as Error), outcome };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An error of ours, or one of the system with its code and its file: both are printed in full. */
function isClear(error: Error): boolean {
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return false;
  return error instanceof RollcallError || ('code' in error && 'path' in error);
}

function give(order: Order | undefined): void {
  if (order) process.env[ORDER] = JSON.stringify(order);
  else delete process.env[ORDER];
  obey();
}
process.send!('ready');

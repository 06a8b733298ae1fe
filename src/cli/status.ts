import { resolve } from 'node:path';
import type { Command } from 'commander';
import pc from 'picocolors';
import { readRunState } from '../watch/run-end.ts';
import { readStatus, statusLines } from '../watch/run-status.ts';
import { readOrigin } from './recorded-run.ts';

export function registerStatus(program: Command): void {
  program
    .command('status')
    .description('what a run is doing now and what it waits for; how it ended, if it has')
    .argument('<run>', 'run directory')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample: rollcall status runs/quickstart-1')
    .action(async (run: string, { json }: { readonly json?: boolean }) => {
      await readOrigin(run); // says if it is no run
      const now = Date.now();
      const state = await readRunState(resolve(run), now);
      const status = await readStatus(run);
      if (json) console.log(JSON.stringify({ ...state, status: status ?? null }));
      else console.log((await describeStatus(run, now)).join('\n'));
    });
}

/** The state of a run in a few lines, by what is in its directory. `now` is the time of day, in milliseconds. */
export async function describeStatus(run: string, now: number): Promise<string[]> {
  const { state, reason } = await readRunState(resolve(run), now);
  const status = await readStatus(run);
  const head = `${run}: ${state === 'live' ? pc.green(state) : state}${reason === null ? '' : `, ${reason}`}`;
  if (!status || state === 'finished') return [head];
  const ago = Math.max(0, Math.round((now - Date.parse(status.at)) / 1000));
  const when = state === 'live' ? `process ${status.pid}, as of ${ago} s ago` : 'when it was last heard of';
  return [head, pc.dim(`  ${when}`), ...statusLines(status).map((line) => `  ${line}`)];
}

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { createReport } from '../watch/dashboard/report.ts';
import { whole, wholes } from './number.ts';
import { writePlayFolder } from './play-folder.ts';
import { tokenizerOf } from './watch.ts';

interface ReportFlags {
  readonly out?: string;
  readonly steps?: readonly number[];
  readonly trajectories: number;
  readonly play?: string;
}

export function registerReport(program: Command): void {
  program
    .command('report')
    .description('write a run as one HTML file to send: curves, tables, chosen trajectories token by token')
    .argument('<runs...>', 'run directories; several are laid over each other')
    .option('--out <file>', 'where to; RUN/report.html if not given')
    .option(
      '--steps <list>',
      'steps whose trajectories go in; first, middle and last if not given',
      wholes(0),
    )
    .option('--trajectories <n>', 'trajectories per step, half the best, half the worst', whole(0), 12)
    .option('--play <dir>', "write a folder instead in which the run's model answers in a browser, offline")
    .addHelpText('after', '\nExample: rollcall report runs/quickstart-1 --steps 1,15,30')
    .action(async (runs: string[], { out, steps, trajectories, play }: ReportFlags) => {
      if (play !== undefined) {
        if (runs.length > 1) throw new ConfigError(`--play takes one run, and ${runs.length} are given`);
        await writePlayFolder(runs[0]!, play);
        console.log(`${play}: open index.html in a browser, or put the folder on any web server`);
        return;
      }
      const html = await createReport({
        runs,
        trajectories,
        tokenizerOf,
        say: (line) => console.error(line),
        ...(steps && { steps }),
      });
      const path = out ?? join(runs[0]!, 'report.html');
      await writeFile(path, html);
      console.log(`${path} (${(html.length / 1e6).toFixed(1)} MB)`);
    });
}

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { createReport } from '../watch/dashboard/report.ts';
import { whole, wholes } from './number.ts';
import { tokenizerOf } from './watch.ts';

interface ReportFlags {
  readonly out?: string;
  readonly steps?: readonly number[];
  readonly trajectories: number;
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
    .addHelpText('after', '\nExample: rollcall report runs/quickstart-1 --steps 1,15,30')
    .action(async (runs: string[], { out, steps, trajectories }: ReportFlags) => {
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

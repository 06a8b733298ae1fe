import type { Command } from 'commander';
import type { TrainOptions } from '../options.ts';
import { driveTraining } from './drive.ts';
import { loadRunFile } from './run-file.ts';

interface TrainFlags {
  readonly resume?: boolean;
  readonly run?: string;
  readonly steps?: number;
  readonly seed?: number;
}

export function registerTrain(program: Command): void {
  program
    .command('train')
    .description('train by a run file')
    .argument('<config>', 'run file (a module that exports `options`)')
    .option('--resume', 'continue the run from its latest checkpoint')
    .option('--run <dir>', 'run directory, instead of the one in the run file')
    .option('--steps <n>', 'number of steps', Number)
    .option('--seed <n>', 'seed', Number)
    .addHelpText('after', '\nExample: rollcall train examples/calculator/train.ts --run runs/calculator')
    .action(async (config: string, { resume, run, steps, seed }: TrainFlags) => {
      const given = await loadRunFile(config);
      const options: TrainOptions = {
        ...given,
        ...(resume ? { resume } : {}),
        ...(run !== undefined ? { runDir: run } : {}),
        ...(steps !== undefined ? { steps } : {}),
        ...(seed !== undefined ? { seed } : {}),
      };
      const finished = await driveTraining(options);
      if (finished) console.error(`Done. Look at it with: rollcall show ${options.runDir}`);
    });
}

import { existsSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { Problem } from '../../examples/quickstart/problems.ts';
import { quickstart } from '../../examples/quickstart/quickstart.ts';
import type { Variant } from '../../examples/quickstart/recipe.ts';
import { realClock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import type { StepReport } from '../run.ts';
import { driveTraining } from './drive.ts';
import { whole } from './number.ts';
import { createDisplay } from './progress.ts';
import { notEmpty } from './text.ts';

interface QuickstartFlags {
  readonly seed: number;
  readonly json?: boolean;
  readonly run?: string;
  readonly kernels?: 'native' | 'wasm';
  readonly steps?: number;
  readonly variant: Variant;
  readonly watch: boolean;
}

export function registerQuickstart(program: Command): void {
  program
    .command('quickstart')
    .description('trains a small model from nothing to use a calculator: supervised warm start, then GRPO')
    .option('--seed <n>', 'of the model, the problems and the sampling', whole(0), 1)
    .option('--json', 'the summary as the last line of standard output; the rest goes to standard error')
    .option('--run <dir>', 'run directory; runs/quickstart-SEED if not given', notEmpty)
    .addOption(new Option('--kernels <build>', 'force one build of the kernels').choices(['native', 'wasm']))
    .option('--steps <n>', 'GRPO steps', whole(1))
    .addOption(
      new Option('--variant <name>', 'short learns less in about 90 s, tiny only shows that it runs')
        .choices(['full', 'short', 'tiny'])
        .default('full'),
    )
    .option('--no-watch', 'do not serve the run in the browser while it lasts')
    .addHelpText('after', '\nExample: rollcall quickstart --seed 2 --json')
    .action((flags: QuickstartFlags) => start(flags));
}

async function start({ seed, json, run, kernels, steps, variant, watch }: QuickstartFlags): Promise<void> {
  const stream = json ? process.stderr : process.stdout;
  const display = createDisplay({ stream, now: realClock().now });
  const summary = await quickstart({
    seed,
    variant,
    kernels,
    steps,
    runDir: run ?? freeRunDirectory(`runs/quickstart-${seed}`),
    say: display.say,
    run: async (options, onStep) => {
      const dashboard = watch && !json ? watchWhileItLasts(options.runDir, display.say) : undefined;
      const step = (report: StepReport<Problem>) => {
        dashboard?.start();
        onStep(report);
      };
      try {
        return await driveTraining(options, { display, onStep: step });
      } finally {
        dashboard?.close();
      }
    },
  });
  if (json && summary) console.log(JSON.stringify(summary));
}

/** Serves the run once it has something to show. Whatever goes wrong here never touches the run. */
function watchWhileItLasts(runDir: string, say: (line: string) => void) {
  let dashboard: Promise<{ close(): Promise<void> } | undefined> | undefined;
  const open = async () => {
    try {
      const { startDashboard } = await import('./watch.ts');
      const opened = await startDashboard({ runs: [runDir], say: () => {} });
      say(`Watch it live: ${opened.url}`);
      return opened;
    } catch (error) {
      say(`(The dashboard did not start: ${messageOf(error)})`);
      return undefined;
    }
  };
  return {
    start: () => {
      dashboard ??= open();
    },
    close: () => {
      dashboard?.then((opened) => opened?.close());
    },
  };
}

/** The name itself, or with the first number that is not taken. */
function freeRunDirectory(name: string): string {
  const names = [name, ...Array.from({ length: 999 }, (_, index) => `${name}-${index + 2}`)];
  return names.find((directory) => !existsSync(directory)) ?? name;
}

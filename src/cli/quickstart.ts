import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { realClock } from '../lib/clock.ts';
import { quickstart } from '../quickstart/quickstart.ts';
import type { Variant } from '../quickstart/recipe.ts';
import { driveTraining } from './drive.ts';
import { createDisplay } from './progress.ts';

interface QuickstartFlags {
  readonly seed: number;
  readonly json?: boolean;
  readonly run?: string;
  readonly kernels?: 'native' | 'wasm';
  readonly steps?: number;
  readonly variant: Variant;
}

export function registerQuickstart(program: Command): void {
  program
    .command('quickstart')
    .description('trains a small model from nothing to use a calculator: supervised warm start, then GRPO')
    .option('--seed <n>', 'of the model, the problems and the sampling', wholeNumber(0), 1)
    .option('--json', 'the summary as the last line of standard output; the rest goes to standard error')
    .option('--run <dir>', 'run directory; runs/quickstart-SEED if not given')
    .addOption(new Option('--kernels <build>', 'force one build of the kernels').choices(['native', 'wasm']))
    .option('--steps <n>', 'GRPO steps', wholeNumber(1))
    .addOption(
      new Option('--variant <name>', 'short learns less in about 90 s, tiny only shows that it runs')
        .choices(['full', 'short', 'tiny'])
        .default('full'),
    )
    .addHelpText('after', '\nExample: rollcall quickstart --seed 2 --json')
    .action((flags: QuickstartFlags) => start(flags));
}

async function start({ seed, json, run, kernels, steps, variant }: QuickstartFlags): Promise<void> {
  const stream = json ? process.stderr : process.stdout;
  const display = createDisplay({ stream, now: realClock().now });
  const summary = await quickstart({
    seed,
    variant,
    kernels,
    steps,
    runDir: run ?? freeRunDirectory(`runs/quickstart-${seed}`),
    say: display.say,
    run: (options, onStep) => driveTraining(options, { display, onStep }),
  });
  if (json && summary) console.log(JSON.stringify(summary));
}

/** The name itself, or with the first number that is not taken. */
function freeRunDirectory(name: string): string {
  const names = [name, ...Array.from({ length: 999 }, (_, index) => `${name}-${index + 2}`)];
  return names.find((directory) => !existsSync(directory)) ?? name;
}

function wholeNumber(least: number) {
  return (text: string) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Use a whole number of ${least} or more.`);
  };
}

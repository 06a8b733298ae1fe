import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import { assembleRun } from '../options/assemble.ts';
import { findMissingServers } from '../options/missing-servers.ts';
import { parseOverrides } from '../options/overrides.ts';
import { PLAIN } from '../options/plain-options.ts';
import { type ResolvedRun, resolveRun } from '../options/resolve-run.ts';
import type { TrainOptions } from '../options.ts';
import { driveTraining } from './drive.ts';
import { splitWords } from './options.ts';
import { createDisplay, type ProgressDisplay } from './progress.ts';
import { loadRunFile } from './run-file.ts';
import { notEmpty } from './text.ts';

interface TrainFlags {
  readonly resume?: boolean;
  readonly dryRun?: boolean;
  readonly run?: string;
}

const EXAMPLES = `
Examples:
  rollcall train examples/calculator/train.ts --run runs/calculator
  rollcall train run.yaml limits.turns=4 optimizer.learningRate=1e-5
  rollcall train algorithm.adv_estimator=grpo data.train_files=train.parquet … --dry-run`;

export function registerTrain(program: Command): void {
  program
    .command('train')
    .description("train by a run file (.ts), a YAML file, or overrides alone, in our words or in verl's")
    .argument('[words...]', 'a run file or YAML file, and overrides such as limits.turns=4')
    .option('--resume', 'continue the run from its latest checkpoint')
    .option('--run <dir>', 'run directory, instead of the one in the file', notEmpty)
    .option('--dry-run', 'check the options, print them as JSON, list what is missing outside; start nothing')
    .addHelpText('after', EXAMPLES)
    .action(async (words: string[], flags: TrainFlags) => {
      const { file, overrides } = splitWords(words);
      if (file !== undefined && /\.m?[jt]s$/.test(file)) await trainRunFile(file, overrides, flags);
      else await trainDescribed({ ...(file !== undefined && { file }), overrides }, flags);
    });
}

/** A run file passes values; overrides may change its plain options. */
async function trainRunFile(file: string, overrides: readonly string[], flags: TrainFlags): Promise<void> {
  const given = await loadRunFile(file);
  const options = withFlags({ ...given, ...overridden(given, overrides) }, flags);
  if (flags.dryRun) {
    const plain = Object.fromEntries(Object.entries(options).filter(([name]) => name in PLAIN));
    console.log(JSON.stringify({ file, runDir: options.runDir, ...plain }, null, 2));
    return;
  }
  await drive(options);
}

async function trainDescribed(
  request: { file?: string; overrides: readonly string[] },
  flags: TrainFlags,
): Promise<void> {
  const resolved = await resolveRun(request);
  for (const note of resolved.notes) console.error(note);
  if (flags.dryRun) {
    for (const line of resolved.refused) console.error(`not yet: ${line}`);
    const missing = [...resolved.missing, ...(await findMissingServers(resolved.options.servers))];
    for (const line of missing) console.error(`missing: ${line}`);
    console.log(JSON.stringify(resolved.options, null, 2));
    return;
  }
  refuse(resolved);
  const { options, close } = await assembleRun(resolved.options, {
    directory: process.cwd(),
    warn: console.error,
  });
  try {
    await drive(withFlags(options, flags), { steps: resolved.options.loggers.includes('console') });
  } finally {
    await close();
  }
}

/** Without `console` among the loggers only what needs attention is printed. */
async function drive<T extends object>(options: TrainOptions<T>, { steps } = { steps: true }): Promise<void> {
  const display = createDisplay({ stream: process.stderr, now: realClock().now });
  const quiet: ProgressDisplay = {
    ...display,
    progress: () => {},
    step: ({ notices }) => notices.forEach(display.say),
  };
  const finished = await driveTraining(options, { display: steps ? display : quiet });
  if (finished) console.error(`Done. Look at it with: rollcall show ${options.runDir}`);
}

const withFlags = <T>(options: TrainOptions<T>, { resume, run }: TrainFlags): TrainOptions<T> => ({
  ...options,
  ...(resume ? { resume } : {}),
  ...(run === undefined ? {} : { runDir: run }),
});

function refuse({ refused, missing }: ResolvedRun): void {
  const hub = (line: string) => line.includes('looked for on the hub');
  const wrong = [...refused, ...missing.filter((line) => !hub(line))];
  if (wrong.length > 0)
    throw new ConfigError(`this run cannot start:\n${wrong.map((line) => `  ${line}`).join('\n')}`);
}

/** Overrides of a run file: the plain options only, merged group by group. */
function overridden(given: TrainOptions, overrides: readonly string[]): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const override of parseOverrides(overrides)) {
    if (override.kind === 'unset')
      throw new ConfigError(`${override.source}: a run file's options can be set, not removed`);
    const [group, ...rest] = override.key.split('.');
    if (!(group! in PLAIN)) {
      throw new ConfigError(
        `${override.source}: a run file passes ${group} as code; overrides change ${Object.keys(PLAIN).join(', ')}`,
      );
    }
    if (rest.length === 0) changes[group!] = override.value;
    else {
      const before = (changes[group!] ?? given[group as keyof TrainOptions] ?? {}) as object;
      changes[group!] = { ...before, [rest.join('.')]: override.value };
    }
  }
  return changes;
}

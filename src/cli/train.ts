import type { Command } from 'commander';
import { processAgent } from '../agent/process-agent.ts';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import { findMissingServers } from '../options/missing-servers.ts';
import { PLAIN } from '../options/plain-options.ts';
import type { TrainOptions } from '../options.ts';
import { AGENT_COMMAND } from './agent-command.ts';
import { driveTraining } from './drive.ts';
import {
  assembleGiven,
  type GivenWords,
  hydraFile,
  isRunFile,
  openGivenRun,
  refuse,
  resolveWords,
  splitWords,
} from './given-run.ts';
import { createDisplay, type ProgressDisplay } from './progress.ts';
import { notEmpty } from './text.ts';

interface TrainFlags {
  readonly resume?: boolean;
  readonly dryRun?: boolean;
  readonly run?: string;
  readonly configPath?: string;
  readonly configName?: string;
  readonly multirun?: boolean;
  readonly agentCommand?: string;
}

const EXAMPLES = `
Examples:
  rollcall train examples/calculator/train.ts --run runs/calculator
  rollcall train train.ts --agent-command 'python solve.py'
  rollcall train run.yaml limits.turns=4 optimizer.learningRate=1e-5
  rollcall train run_qwen2.5-3b_gsm8k_multiturn.sh --dry-run
  rollcall train algorithm.adv_estimator=grpo data.train_files=train.parquet … --dry-run`;

export function registerTrain(program: Command): void {
  program
    .command('train')
    .description(
      "train by a run file (.ts), a YAML file, a script of verl's (.sh), or overrides alone, in our words or in verl's",
    )
    .argument('[words...]', 'a run file, YAML file or verl script, and overrides such as limits.turns=4')
    .option('--resume', 'continue the run from its latest checkpoint')
    .option('--run <dir>', 'run directory, instead of the one in the file', notEmpty)
    .option('--agent-command <line>', AGENT_COMMAND, notEmpty)
    .option('--dry-run', 'check the options, print them as JSON, list what is missing outside; start nothing')
    .addHelpText('after', EXAMPLES)
    .option('--config-path <dir>', "Hydra's: the folder of --config-name")
    .option('--config-name <name>', "Hydra's: a YAML file, with or without its ending")
    .option('--multirun', "Hydra's sweeps: not here")
    .action(async (words: string[], flags: TrainFlags) => {
      if (flags.multirun)
        throw new ConfigError('--multirun is not understood: start rollcall train once for each combination');
      const { file, overrides } = splitWords(words);
      const named = hydraFile(flags.configPath, flags.configName);
      if (file !== undefined && named !== undefined)
        throw new ConfigError(`two files are given: ${file} and, by --config-name, ${named}; give one`);
      const given = { file: file ?? named, overrides };
      if (isRunFile(given.file)) await trainRunFile(given, flags);
      else await trainDescribed(given, flags);
    });
}

async function trainRunFile(given: GivenWords, flags: TrainFlags): Promise<void> {
  const { options: passed } = await openGivenRun(given);
  const options = withFlags(passed, flags);
  if (flags.dryRun) {
    const plain = Object.fromEntries(Object.entries(options).filter(([name]) => name in PLAIN));
    console.log(JSON.stringify({ file: given.file, runDir: options.runDir, ...plain }, null, 2));
    return;
  }
  await drive(options);
}

async function trainDescribed(given: GivenWords, flags: TrainFlags): Promise<void> {
  const resolved = await resolveWords(given);
  for (const note of resolved.notes) console.error(note);
  if (flags.dryRun) {
    for (const line of resolved.refused) console.error(`not yet: ${line}`);
    const missing = [...resolved.missing, ...(await findMissingServers(resolved.options.servers))];
    for (const line of missing) console.error(`missing: ${line}`);
    console.log(JSON.stringify(resolved.options, null, 2));
    return;
  }
  refuse(resolved);
  const { options, close } = await assembleGiven(resolved);
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
  for (const { name, experimental } of options.trackers ?? []) {
    if (experimental !== undefined) console.error(`The tracker ${name} is experimental: ${experimental}.`);
  }
  const finished = await driveTraining(options, { display: steps ? display : quiet });
  if (finished) console.error(`Done. Look at it with: rollcall show ${options.runDir}`);
}

const withFlags = <T>(
  options: TrainOptions<T>,
  { resume, run, agentCommand }: TrainFlags,
): TrainOptions<T> => ({
  ...options,
  ...(agentCommand === undefined ? {} : { agent: processAgent<T>({ command: agentCommand }) }),
  ...(resume ? { resume } : {}),
  ...(run === undefined ? {} : { runDir: run }),
});

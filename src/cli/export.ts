import { basename, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { realClock } from '../lib/clock.ts';
import type { Tracker } from '../watch/tracker.ts';
import { TRACE_NAMES, TRACKER_NAMES, type TraceSetup, trackerNamed } from '../watch/trackers/by-name.ts';
import { sendRun } from '../watch/trackers/send-run.ts';
import { whole } from './number.ts';
import { decoderOf } from './recorded-run.ts';

interface ExportFlags {
  readonly to: readonly string[];
  readonly project: string;
  readonly experiment?: string;
  readonly traces?: boolean;
  readonly text?: boolean;
  readonly samplesPerStep?: number;
}

export function registerExport(program: Command): void {
  program
    .command('export')
    .description('send a run, finished or not, to a tracker')
    .argument('<run>', 'run directory')
    .requiredOption(
      '--to <target>',
      `one of ${TRACKER_NAMES.join(', ')}, with =URL or =DIR where it is not the usual; may be given several times`,
      (target: string, all: readonly string[] = []) => [...all, target],
    )
    .option('--project <name>', "MLflow's experiment, W&B's project", 'rollcall')
    .option('--experiment <name>', 'name of the run there; that of its folder if not given')
    .option('--traces', 'also every trajectory, as a trace')
    .option(
      '--text',
      'messages and the text of tokens: of all traces, and in tensorboard and wandb of the first trajectory of each step',
    )
    .option('--samples-per-step <n>', 'with --traces: all attempts at this many tasks of each step', whole(1))
    .addHelpText(
      'after',
      '\nExample: rollcall export runs/quickstart --to mlflow=http://127.0.0.1:5000 --traces',
    )
    .action(async (directory: string, flags: ExportFlags) => {
      const { to, project, traces, text, samplesPerStep } = flags;
      const experiment = flags.experiment ?? basename(resolve(directory));
      const setup = {
        project,
        experiment,
        environment: process.env,
        text: text === true,
        tasksPerStep: samplesPerStep,
      };
      const trackers = to.flatMap((target) => trackersOf(target, setup, traces === true));
      const decode = text ? await decoderOf(directory) : () => '';
      for (const tracker of trackers) {
        const { lines, trajectories } = await sendRun(directory, tracker, { decode, clock: realClock() });
        console.error(`${tracker.name}: ${tracker.trace ? `${trajectories} traces` : `${lines} steps`} sent`);
      }
    });
}

function trackersOf(target: string, setup: TraceSetup, traces: boolean): Tracker[] {
  const [, name = '', where] = /^([^=]*)(?:=(.+))?$/.exec(target) ?? [];
  const known = trackerNamed(name);
  if (!known) {
    throw new ConfigError(
      `--to ${target}: use ${TRACKER_NAMES.join(', ')}, such as mlflow=http://127.0.0.1:5000`,
    );
  }
  const { log, trace } = known;
  if (traces && !trace)
    throw new ConfigError(`--to ${target} takes no traces; use one of ${TRACE_NAMES.join(', ')}`);
  const given = { ...setup, where };
  const opened = [log?.(given), trace && (traces || !log) ? trace(given) : undefined];
  const trackers = opened.filter((tracker) => tracker !== undefined);
  if (trackers.length === 0) throw new ConfigError(`--to ${target} is turned off by the environment`);
  return trackers;
}

import { basename, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { mlflowTraces } from '../watch/traces/mlflow-traces.ts';
import { otlp } from '../watch/traces/otlp.ts';
import { weaveTraces } from '../watch/traces/weave-traces.ts';
import type { Tracker } from '../watch/tracker.ts';
import { mlflow } from '../watch/trackers/mlflow.ts';
import { sendRun } from '../watch/trackers/send-run.ts';
import { tensorboard } from '../watch/trackers/tensorboard.ts';
import { wandb } from '../watch/trackers/wandb.ts';
import { whole } from './number.ts';
import { decoderOf } from './show.ts';

interface ExportFlags {
  readonly to: readonly string[];
  readonly project: string;
  readonly experiment?: string;
  readonly traces?: boolean;
  readonly text?: boolean;
  readonly samplesPerStep?: number;
}

type Open = (
  where: string | undefined,
  run: { project: string; experiment: string; text: boolean; tasksPerStep?: number | undefined },
) => Tracker;

const TARGETS: Readonly<Record<string, { readonly log?: Open; readonly trace?: Open }>> = {
  mlflow: {
    log: (uri, { project, experiment }) => mlflow({ project, experiment, ...(uri ? { uri } : {}) }),
    trace: (uri, options) => mlflowTraces({ ...options, ...(uri ? { uri } : {}) }),
  },
  wandb: {
    log: (url, { project, experiment }) => wandb({ project, experiment, ...(url ? { url } : {}) }),
    trace: (_, options) => weaveTraces(options),
  },
  tensorboard: {
    log: (directory, { experiment }) =>
      tensorboard({ directory: directory ?? `tensorboard_log/${experiment}` }),
  },
  otlp: { trace: (url, options) => otlp({ url: url ?? 'http://localhost:4318/v1/traces', ...options }) },
};

export function registerExport(program: Command): void {
  program
    .command('export')
    .description('send a run, finished or not, to a tracker')
    .argument('<run>', 'run directory')
    .requiredOption(
      '--to <target>',
      'mlflow=URL, wandb, tensorboard=DIR or otlp=URL; may be given several times',
      (target: string, all: readonly string[] = []) => [...all, target],
    )
    .option('--project <name>', "MLflow's experiment, W&B's project", 'rollcall')
    .option('--experiment <name>', 'name of the run there; that of its folder if not given')
    .option('--traces', 'also every trajectory, as a trace')
    .option('--text', 'with --traces: messages and the text of tokens, not ids alone')
    .option('--samples-per-step <n>', 'with --traces: all attempts at so many tasks of each step', whole(1))
    .addHelpText(
      'after',
      '\nExample: rollcall export runs/quickstart --to mlflow=http://127.0.0.1:5000 --traces',
    )
    .action(async (directory: string, flags: ExportFlags) => {
      const { to, project, traces, text, samplesPerStep } = flags;
      const experiment = flags.experiment ?? basename(resolve(directory));
      const run = { project, experiment, text: text === true, tasksPerStep: samplesPerStep };
      const trackers = to.flatMap((target) => trackersOf(target, run, traces === true));
      const decode = text ? await decoderOf(directory) : () => '';
      for (const tracker of trackers) {
        const { lines, trajectories } = await sendRun(directory, tracker, { decode });
        console.error(`${tracker.name}: ${tracker.trace ? `${trajectories} traces` : `${lines} steps`} sent`);
      }
    });
}

function trackersOf(target: string, run: Parameters<Open>[1], traces: boolean): Tracker[] {
  const [, name, where] = /^([^=]*)(?:=(.+))?$/.exec(target) ?? [];
  const known = TARGETS[name ?? ''];
  if (known === undefined) {
    throw new ConfigError(
      `--to ${target}: use ${Object.keys(TARGETS).join(', ')}, such as mlflow=http://127.0.0.1:5000`,
    );
  }
  const { log, trace } = known;
  if (traces && trace === undefined)
    throw new ConfigError(`--to ${target} takes no traces; use mlflow, wandb or otlp`);
  return [
    ...(log ? [log(where, run)] : []),
    ...(trace && (traces || log === undefined) ? [trace(where, run)] : []),
  ];
}

import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { mlflowTraces } from '../traces/mlflow-traces.ts';
import type { TraceOptions } from '../traces/otlp.ts';
import { otlp } from '../traces/otlp.ts';
import { weaveTraces } from '../traces/weave-traces.ts';
import type { Tracker } from '../tracker.ts';
import { mlflow } from './mlflow.ts';
import { tensorboard } from './tensorboard.ts';
import { wandb } from './wandb.ts';

export interface NamedTrackersOptions {
  /** As in verl's `trainer.logger`. */
  readonly loggers: readonly string[];
  readonly project: string;
  readonly experiment: string;
  readonly trace: {
    readonly backend: string | null;
    readonly text: boolean;
    readonly samplesPerStep: number | null;
  };
  readonly environment: Readonly<Record<string, string | undefined>>;
}

type Open = (options: NamedTrackersOptions) => readonly Tracker[];

/** `console` is the display of the command line, `file` the run directory's metrics.jsonl. */
const LOGGERS: Readonly<Record<string, Open>> = {
  console: () => [],
  file: () => [],
  tensorboard: ({ project, experiment, environment }) => [
    tensorboard({
      directory: environment['TENSORBOARD_DIR'] || join('tensorboard_log', project, experiment),
    }),
  ],
  mlflow: ({ project, experiment, environment }) => [mlflow({ project, experiment, environment })],
  wandb: ({ project, experiment, environment }) =>
    environment['WANDB_MODE'] === 'disabled' ? [] : [wandb({ project, experiment, environment })],
};

const TRACES: Readonly<Record<string, (options: NamedTrackersOptions & TraceOptions) => Tracker>> = {
  mlflow: ({ project, environment, experiment, text, tasksPerStep }) =>
    mlflowTraces({ project, environment, experiment, text: text === true, tasksPerStep }),
  weave: ({ project, environment, experiment, text, tasksPerStep }) =>
    weaveTraces({ project, environment, experiment, text: text === true, tasksPerStep }),
  otlp: ({ environment, experiment, text, tasksPerStep }) =>
    otlp({ ...collectorOf(environment), experiment, text: text === true, tasksPerStep }),
};

/** The trackers that a run described as data asks for; an unknown or impossible one is refused. */
export function namedTrackers(options: NamedTrackersOptions): Tracker[] {
  const { loggers, trace } = options;
  const trackers = loggers.flatMap((name) => {
    const open = LOGGERS[name];
    if (open === undefined) {
      throw new ConfigError(
        `loggers has ${JSON.stringify(name)}; use some of ${Object.keys(LOGGERS).join(', ')} (others read the files of tensorboard or metrics.jsonl)`,
      );
    }
    return open(options);
  });
  if (trace.backend === null) return trackers;
  const open = TRACES[trace.backend];
  if (open === undefined) {
    throw new ConfigError(
      `trace.backend is ${JSON.stringify(trace.backend)}; use one of ${Object.keys(TRACES).join(', ')}`,
    );
  }
  const traces = open({ ...options, text: trace.text, tasksPerStep: trace.samplesPerStep ?? undefined });
  return [...trackers, traces];
}

/** OpenTelemetry's own variables. */
function collectorOf(environment: NamedTrackersOptions['environment']) {
  const {
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces,
    OTEL_EXPORTER_OTLP_ENDPOINT: all,
    OTEL_EXPORTER_OTLP_HEADERS: headers = '',
  } = environment;
  const url = traces || `${(all || 'http://localhost:4318').replace(/\/+$/, '')}/v1/traces`;
  const pairs = headers.split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at < 0 ? [] : [[pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())]];
  });
  return { url, headers: Object.fromEntries(pairs) as Record<string, string> };
}

/** The trackers that are known by name, for runs described as data and for `rollcall export`. To add one, add a line. */
import { join } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { mlflowTraces } from '../traces/mlflow-traces.ts';
import { otlp } from '../traces/otlp.ts';
import { weaveTraces } from '../traces/weave-traces.ts';
import type { Tracker } from '../tracker.ts';
import { mlflow } from './mlflow.ts';
import { tensorboard } from './tensorboard.ts';
import { wandb } from './wandb.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** What a tracker is opened for. */
export interface TrackerSetup {
  readonly project: string;
  readonly experiment: string;
  readonly environment: Environment;
  /** A URL or a folder, instead of what the environment says. */
  readonly where?: string | undefined;
  /** Messages and the text of tokens, not numbers and ids alone. */
  readonly text: boolean;
}

export interface TraceSetup extends TrackerSetup {
  readonly tasksPerStep?: number | undefined;
}

interface NamedTracker {
  /** Metrics step by step; undefined where the environment turns it off. */
  readonly log?: (setup: TrackerSetup) => Tracker | undefined;
  /** Trajectories as traces. */
  readonly trace?: (setup: TraceSetup) => Tracker;
  /** Environment variables without which it cannot send. */
  readonly needs?: (environment: Environment) => readonly string[];
}

const TRACKERS: Readonly<Record<string, NamedTracker>> = {
  tensorboard: {
    log: ({ project, experiment, environment, where, text }) =>
      tensorboard({
        text,
        directory: where ?? (environment['TENSORBOARD_DIR'] || join('tensorboard_log', project, experiment)),
      }),
  },
  mlflow: {
    log: ({ where, ...setup }) => mlflow({ ...setup, ...(where ? { uri: where } : {}) }),
    trace: ({ where, ...setup }) => mlflowTraces({ ...setup, ...(where ? { uri: where } : {}) }),
    needs: () => ['MLFLOW_TRACKING_URI'],
  },
  wandb: {
    log: ({ where, ...setup }) =>
      setup.environment['WANDB_MODE'] === 'disabled'
        ? undefined
        : wandb({ ...setup, ...(where ? { url: where } : {}) }),
    trace: (setup) => weaveTraces(setup),
    needs: ({ WANDB_MODE }) => (WANDB_MODE === undefined || WANDB_MODE === 'online' ? ['WANDB_API_KEY'] : []),
  },
  weave: { trace: (setup) => weaveTraces(setup), needs: () => ['WANDB_API_KEY'] },
  otlp: {
    trace: ({ environment, where, ...setup }) =>
      otlp({ ...collectorOf(environment), ...(where ? { url: where } : {}), ...setup }),
  },
};

/** Shown by the command line, and written to the run directory: always there, so nothing is opened for them. */
const ALWAYS_THERE = ['console', 'file'];

const LOGGER_NAMES = [...ALWAYS_THERE, ...namesWith('log')];
export const TRACE_NAMES = namesWith('trace');
/** What `rollcall export` can send to. */
export const TRACKER_NAMES = Object.keys(TRACKERS);

function namesWith(kind: 'log' | 'trace'): string[] {
  return Object.keys(TRACKERS).filter((name) => TRACKERS[name]![kind]);
}

export function trackerNamed(name: string): NamedTracker | undefined {
  return TRACKERS[name];
}

export interface NamedTrackersOptions extends Omit<TrackerSetup, 'text'> {
  /** As in verl's `trainer.logger`. */
  readonly loggers: readonly string[];
  readonly trace: {
    readonly backend: string | null;
    readonly text: boolean;
    readonly samplesPerStep: number | null;
  };
}

/** The trackers that a run described as data asks for; an unknown or impossible one is refused. */
export function namedTrackers({ loggers, trace, ...setup }: NamedTrackersOptions): Tracker[] {
  const trackers = loggers.flatMap((name) => {
    if (ALWAYS_THERE.includes(name)) return [];
    const { log } = TRACKERS[name] ?? {};
    if (log) return log({ ...setup, text: trace.text }) ?? [];
    throw new ConfigError(
      `loggers has ${JSON.stringify(name)}; use some of ${LOGGER_NAMES.join(', ')} (others read the files of tensorboard or metrics.jsonl)`,
    );
  });
  if (trace.backend === null) return trackers;
  const { trace: open } = TRACKERS[trace.backend] ?? {};
  if (!open) {
    throw new ConfigError(
      `trace.backend is ${JSON.stringify(trace.backend)}; use one of ${TRACE_NAMES.join(', ')}`,
    );
  }
  return [...trackers, open({ ...setup, text: trace.text, tasksPerStep: trace.samplesPerStep ?? undefined })];
}

/** OpenTelemetry's own variables. */
function collectorOf(environment: Environment) {
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

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../lib/files.ts';
import type { TrackedLine, TrackedRun, Tracker } from '../tracker.ts';
import { flatten } from './flatten.ts';
import type { Environment, MlflowMetric, MlflowRun, MlflowRuns } from './mlflow-runs.ts';
import { mlflowStore } from './mlflow-store.ts';

/** Which MLflow store and experiment metrics go to. */
export interface MlflowOptions {
  /** A server (`http:`), a database (`sqlite:`) or a folder (`./mlruns`); if not given, MLFLOW_TRACKING_URI. */
  readonly uri?: string;
  /** MLflow's experiment. */
  readonly project: string;
  /** Name of the run in it. */
  readonly experiment: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly environment?: Environment;
}

// The limit of a parameter's value in the oldest servers in use.
const PARAM_CHARACTERS = 500;

/** Sent last of a line: a step whose own number has arrived has arrived whole. */
const STEP_METRIC = 'training/global_step';

const ARTIFACTS = ['options.json', 'metrics.jsonl', 'end.json'];

/** A run in MLflow: options as params, a metric history per metric, the run's small files as artefacts. */
export function mlflow({
  project,
  experiment,
  tags = {},
  environment = process.env,
  uri = environment['MLFLOW_TRACKING_URI'] ?? '',
}: MlflowOptions): Tracker {
  const store = mlflowStore(uri, environment);
  let runs: MlflowRuns;
  let run: MlflowRun;
  let sentThrough = Number.NEGATIVE_INFINITY;
  let directory = '';
  let hasImages = false;
  let isTagged = false;
  return {
    name: 'mlflow',
    exportHint: `rollcall export RUN --to mlflow=${store.place}`,
    patienceMs: store.patienceMs,
    open: async (tracked, signal) => {
      directory = tracked.directory;
      runs = await store.open(signal);
      const key = mlflowRunKey(store.place, project);
      const known = await tracked.memory.read(key);
      const found =
        known && (await runs.find({ runId: known['runId']!, experimentId: known['experimentId']! }, signal));
      if (found) {
        ({ run } = found);
        sentThrough = found.metrics.get(STEP_METRIC) ?? sentThrough;
        await runs.setStatus(run, 'RUNNING', signal);
      } else {
        const experimentId = await runs.experimentId(project, signal);
        const startTime = Math.round(tracked.clockBegan);
        run = await runs.create(
          { experimentId, name: experiment, startTime, tags: tagsOf(tracked, tags) },
          signal,
        );
        await tracked.memory.write(key, { runId: run.runId, experimentId });
      }
      // A param never changes: a run that was resumed with other options keeps those it began with.
      const params = paramsOf(tracked.options).filter(({ key: param }) => !found?.params.has(param));
      await runs.addParams(run, params, signal);
    },
    log: async (lines, signal) => {
      const news = lines.filter(({ step }) => step > sentThrough);
      for (const line of news) hasImages = (await putImages(runs, run, line, signal)) || hasImages;
      if (hasImages && !isTagged) {
        await runs.setTag(run, 'mlflow.loggedImages', 'True', signal);
        isTagged = true;
      }
      await runs.addMetrics(run, news.flatMap(metricsOf), signal);
      sentThrough = Math.max(sentThrough, ...lines.map(({ step }) => step));
    },
    close: async (end, signal) => {
      await putArtifacts(runs, run, directory, signal);
      await runs.setStatus(run, end === 'finished' ? 'FINISHED' : 'KILLED', signal);
      await store.close();
    },
  };
}

/** Where `trackers.json` keeps the run's id. */
export const mlflowRunKey = (place: string, project: string): string => `mlflow ${place} ${project}`;

function tagsOf(tracked: TrackedRun, tags: Readonly<Record<string, string>>): Record<string, string> {
  const commit = tracked.options['gitCommit'];
  return {
    'mlflow.source.name': 'rollcall',
    'mlflow.source.type': 'JOB',
    ...(typeof commit === 'string' ? { 'mlflow.source.git.commit': commit } : {}),
    'rollcall.run': tracked.directory,
    ...tags,
  };
}

function paramsOf(options: Readonly<Record<string, unknown>>) {
  return flatten(options).map(([key, value]) => ({
    key: mlflowName(key),
    value: value.length > PARAM_CHARACTERS ? `${value.slice(0, PARAM_CHARACTERS - 1)}…` : value,
  }));
}

function metricsOf({ step, time, metrics }: TrackedLine): MlflowMetric[] {
  const names = Object.keys(metrics).filter((name) => name !== STEP_METRIC);
  if (STEP_METRIC in metrics) names.push(STEP_METRIC);
  return names.map((name) => ({
    key: mlflowName(name),
    value: metrics[name]!,
    timestamp: Math.round(time),
    step,
  }));
}

/** `mean@4` is `mean_at_4`, as verl writes it; what else MLflow does not take in a name is an underscore. */
export function mlflowName(name: string): string {
  return name.replaceAll('@', '_at_').replaceAll(/[^\w\-. :/]/g, '_');
}

/**
 * As `mlflow.log_image` names them, so that its page shows a grid with a slider for steps: the whole picture and, under
 * the same name, a small one, which is the same here. The last part is the image's own hash: sent again, it replaces itself.
 */
async function putImages(
  runs: MlflowRuns,
  run: MlflowRun,
  { step, time, images = [] }: TrackedLine,
  signal: AbortSignal,
): Promise<boolean> {
  for (const { name, blob, png } of images) {
    const bytes = await png();
    if (bytes === undefined) continue;
    const hash = blob.slice(0, 32);
    const file = `images/${name.replaceAll('/', '~')}+step+${step}+timestamp+${Math.round(time)}+${hash}`;
    await runs.putArtifact(run, `${file}.png`, bytes, signal);
    await runs.putArtifact(run, `${file}+compressed.png`, bytes, signal);
  }
  return images.length > 0;
}

async function putArtifacts(
  runs: MlflowRuns,
  run: MlflowRun,
  directory: string,
  signal: AbortSignal,
): Promise<void> {
  for (const name of ARTIFACTS) {
    const body = await readFile(join(directory, name)).catch((error: unknown) => {
      if (isMissing(error)) return undefined; // a stopped run has no summary
      throw error;
    });
    if (body !== undefined) await runs.putArtifact(run, name, body, signal);
  }
}

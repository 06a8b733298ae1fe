import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../lib/files.ts';
import type { TrackedLine, TrackedRun, Tracker } from '../tracker.ts';
import { flatten } from './flatten.ts';
import { jsonNumber, request } from './http.ts';
import { type Environment, type MlflowClient, mlflowClient } from './mlflow-client.ts';

/** Which MLflow server and experiment metrics go to. */
export interface MlflowOptions {
  /** URI of a tracking server; if not given, MLFLOW_TRACKING_URI. */
  readonly uri?: string;
  /** MLflow's experiment. */
  readonly project: string;
  /** Name of the run in it. */
  readonly experiment: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly environment?: Environment;
}

// Limits of runs/log-batch, and of a parameter's value since the oldest servers in use.
const METRICS_PER_BATCH = 1_000;
const PARAMS_PER_BATCH = 100;
const PARAM_CHARACTERS = 500;

/** Sent last of a line: a step whose own number has arrived has arrived whole. */
const STEP_METRIC = 'training/global_step';

const ARTIFACTS = ['options.json', 'metrics.jsonl', 'end.json'];

/** A run on an MLflow server: options as params, a metric history per metric, the run's small files as artefacts. */
export function mlflow({
  project,
  experiment,
  tags = {},
  environment = process.env,
  uri = environment['MLFLOW_TRACKING_URI'] ?? '',
}: MlflowOptions): Tracker {
  const client = mlflowClient(uri, environment);
  let run = { runId: '', artifactUri: '' };
  let sentThrough = Number.NEGATIVE_INFINITY;
  let directory = '';
  return {
    name: 'mlflow',
    exportHint: `rollcall export RUN --to mlflow=${client.url}`,
    open: async (tracked, signal) => {
      directory = tracked.directory;
      const key = mlflowRunKey(client.url, project);
      const known = await tracked.memory.read(key);
      const found = known && (await continueRun(client, known['runId']!, signal));
      if (found) ({ run, sentThrough } = found);
      else {
        const experimentId = await client.experimentId(project, signal);
        run = await createRun(client, { experimentId, experiment, tags, tracked, signal });
        await tracked.memory.write(key, { runId: run.runId, experimentId });
      }
      // A param never changes: a run that was resumed with other options keeps those it began with.
      const params = paramsOf(tracked.options).filter(({ key: param }) => !found?.params.has(param));
      for (let at = 0; at < params.length; at += PARAMS_PER_BATCH) {
        const batch = params.slice(at, at + PARAMS_PER_BATCH);
        await client.post('runs/log-batch', { run_id: run.runId, params: batch }, signal);
      }
    },
    log: async (lines, signal) => {
      const metrics = lines.filter(({ step }) => step > sentThrough).flatMap(metricsOf);
      for (let at = 0; at < metrics.length; at += METRICS_PER_BATCH) {
        const batch = metrics.slice(at, at + METRICS_PER_BATCH);
        await client.post('runs/log-batch', { run_id: run.runId, metrics: batch }, signal);
      }
      sentThrough = Math.max(sentThrough, ...lines.map(({ step }) => step));
    },
    close: async (end, signal) => {
      await sendArtifacts(client, directory, run.artifactUri, signal);
      const status = end === 'finished' ? 'FINISHED' : 'KILLED';
      await client.post('runs/update', { run_id: run.runId, status, end_time: Date.now() }, signal);
    },
  };
}

/** Where `trackers.json` keeps the run's id. */
export const mlflowRunKey = (url: string, project: string): string => `mlflow ${url} ${project}`;

interface RunAnswer {
  readonly run: {
    readonly info: { readonly run_id: string; readonly artifact_uri: string };
    readonly data: {
      readonly metrics?: readonly { readonly key: string; readonly value: number }[];
      readonly params?: readonly { readonly key: string }[];
    };
  };
}

/** The run made before this process; undefined if the server no longer knows it. */
async function continueRun(client: MlflowClient, runId: string, signal: AbortSignal) {
  const answer = await client.get('runs/get', { run_id: runId }, signal).catch((error: unknown) => {
    if (error instanceof Error && 'status' in error && error.status === 404) return undefined;
    throw error;
  });
  if (answer === undefined) return undefined;
  await client.post('runs/update', { run_id: runId, status: 'RUNNING' }, signal);
  const { info, data } = (answer as RunAnswer).run;
  const step = data.metrics?.find(({ key }) => key === STEP_METRIC)?.value;
  return {
    run: { runId, artifactUri: info.artifact_uri },
    sentThrough: step ?? Number.NEGATIVE_INFINITY,
    params: new Set(data.params?.map(({ key }) => key)),
  };
}

async function createRun(
  client: MlflowClient,
  made: {
    readonly experimentId: string;
    readonly experiment: string;
    readonly tags: Readonly<Record<string, string>>;
    readonly tracked: TrackedRun;
    readonly signal: AbortSignal;
  },
) {
  const { experimentId, experiment, tags, tracked, signal } = made;
  const commit = tracked.options['gitCommit'];
  const allTags = {
    'mlflow.source.name': 'rollcall',
    'mlflow.source.type': 'JOB',
    ...(typeof commit === 'string' ? { 'mlflow.source.git.commit': commit } : {}),
    'rollcall.run': tracked.directory,
    ...tags,
  };
  const answer = (await client.post(
    'runs/create',
    {
      experiment_id: experimentId,
      run_name: experiment,
      start_time: Math.round(tracked.clockBegan),
      tags: Object.entries(allTags).map(([key, value]) => ({ key, value })),
    },
    signal,
  )) as RunAnswer;
  return { runId: answer.run.info.run_id, artifactUri: answer.run.info.artifact_uri };
}

function paramsOf(options: Readonly<Record<string, unknown>>) {
  return flatten(options).map(([key, value]) => ({
    key: mlflowName(key),
    value: value.length > PARAM_CHARACTERS ? `${value.slice(0, PARAM_CHARACTERS - 1)}…` : value,
  }));
}

function metricsOf({ step, time, metrics }: TrackedLine) {
  const names = Object.keys(metrics).filter((name) => name !== STEP_METRIC);
  if (STEP_METRIC in metrics) names.push(STEP_METRIC);
  return names.map((name) => ({
    key: mlflowName(name),
    value: jsonNumber(metrics[name]!),
    timestamp: Math.round(time),
    step,
  }));
}

/** `mean@4` is `mean_at_4`, as verl writes it; what else MLflow does not take in a name is an underscore. */
export function mlflowName(name: string): string {
  return name.replaceAll('@', '_at_').replaceAll(/[^\w\-. :/]/g, '_');
}

/** Only where the server itself keeps artefacts; a bucket would want its own credentials. */
async function sendArtifacts(
  { url, headers }: MlflowClient,
  directory: string,
  artifactUri: string,
  signal: AbortSignal,
): Promise<void> {
  const place = /^mlflow-artifacts:(?:\/\/[^/]*)?\/(.+)$/.exec(artifactUri)?.[1];
  if (place === undefined) return;
  for (const name of ARTIFACTS) {
    const body = await readFile(join(directory, name)).catch((error: unknown) => {
      if (isMissing(error)) return undefined; // a stopped run has no summary
      throw error;
    });
    if (body === undefined) continue;
    const target = `${url}/api/2.0/mlflow-artifacts/artifacts/${place}/${name}`;
    await request(target, { method: 'PUT', headers, body, signal });
  }
}

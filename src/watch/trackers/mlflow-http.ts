import { TrackerRefusal } from '../tracker.ts';
import { HttpError, jsonNumber, request } from './http.ts';
import type { MlflowAddress, MlflowRuns } from './mlflow-runs.ts';

// Limits of runs/log-batch.
const METRICS_PER_BATCH = 1_000;
const PARAMS_PER_BATCH = 100;

interface RunAnswer {
  readonly run: {
    readonly info: { readonly run_id: string; readonly artifact_uri: string };
    readonly data: {
      readonly metrics?: readonly { readonly key: string; readonly value: number }[];
      readonly params?: readonly { readonly key: string }[];
    };
  };
}

const isUnknown = (error: unknown) => error instanceof HttpError && error.status === 404;

function* batches<Item>(items: readonly Item[], size: number): Generator<Item[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}

/** MLflow's REST API as far as a run needs it. */
export function mlflowHttp({ url, headers }: MlflowAddress): MlflowRuns {
  const call = (path: string) => `${url}/api/2.0/mlflow/${path}`;
  const get = (path: string, query: Readonly<Record<string, string>>, signal: AbortSignal) =>
    request(`${call(path)}?${new URLSearchParams(query)}`, { method: 'GET', headers, signal });
  const post = (path: string, body: object, signal: AbortSignal) =>
    request(call(path), { headers, body, signal });
  const findExperiment = async (name: string, signal: AbortSignal) => {
    const answer = await get('experiments/get-by-name', { experiment_name: name }, signal);
    return (answer as { experiment: { experiment_id: string } }).experiment.experiment_id;
  };
  return {
    experimentId: async (name, signal) => {
      try {
        return await findExperiment(name, signal);
      } catch (error) {
        if (!isUnknown(error)) throw error;
      }
      try {
        const answer = await post('experiments/create', { name }, signal);
        return (answer as { experiment_id: string }).experiment_id;
      } catch (error) {
        if (error instanceof TrackerRefusal) return await findExperiment(name, signal); // made by another meanwhile
        throw error;
      }
    },
    create: async ({ experimentId, name, startTime, tags }, signal) => {
      const pairs = Object.entries(tags).map(([key, value]) => ({ key, value }));
      const body = { experiment_id: experimentId, run_name: name, start_time: startTime, tags: pairs };
      const { info } = ((await post('runs/create', body, signal)) as RunAnswer).run;
      return { runId: info.run_id, experimentId, artifactUri: info.artifact_uri };
    },
    find: async ({ runId, experimentId }, signal) => {
      const answer = await get('runs/get', { run_id: runId }, signal).catch((error: unknown) => {
        if (isUnknown(error)) return undefined;
        throw error;
      });
      if (answer === undefined) return undefined;
      const { info, data } = (answer as RunAnswer).run;
      return {
        run: { runId, experimentId, artifactUri: info.artifact_uri },
        params: new Set(data.params?.map(({ key }) => key)),
        metrics: new Map(data.metrics?.map(({ key, value }) => [key, value])),
      };
    },
    addParams: async ({ runId }, params, signal) => {
      for (const batch of batches(params, PARAMS_PER_BATCH)) {
        await post('runs/log-batch', { run_id: runId, params: batch }, signal);
      }
    },
    addMetrics: async ({ runId }, metrics, signal) => {
      const sendable = metrics.map((metric) => ({ ...metric, value: jsonNumber(metric.value) }));
      for (const batch of batches(sendable, METRICS_PER_BATCH)) {
        await post('runs/log-batch', { run_id: runId, metrics: batch }, signal);
      }
    },
    setTag: async ({ runId }, key, value, signal) => {
      await post('runs/set-tag', { run_id: runId, key, value }, signal);
    },
    putArtifact: async ({ artifactUri }, name, body, signal) => {
      // Only where the server itself keeps artefacts; a bucket would want its own credentials.
      const place = /^mlflow-artifacts:(?:\/\/[^/]*)?\/(.+)$/.exec(artifactUri)?.[1];
      if (place === undefined) return;
      const target = `${url}/api/2.0/mlflow-artifacts/artifacts/${place}/${name}`;
      await request(target, { method: 'PUT', headers, body, signal });
    },
    setStatus: async ({ runId }, status, signal) => {
      const end = status === 'RUNNING' ? {} : { end_time: Date.now() };
      await post('runs/update', { run_id: runId, status, ...end }, signal);
    },
  };
}

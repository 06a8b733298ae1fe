import type { Tracker } from '../tracker.ts';
import { mlflowRunKey } from '../trackers/mlflow.ts';
import { type Environment, mlflowClient } from '../trackers/mlflow-client.ts';
import { type TraceOptions, traceTracker } from './otlp.ts';

export interface MlflowTracesOptions extends TraceOptions {
  /** Of a tracking server; MLFLOW_TRACKING_URI without it. */
  readonly uri?: string;
  /** MLflow's experiment. */
  readonly project: string;
  readonly environment?: Environment;
}

/** Traces to an MLflow server (3.6 and newer, with a database behind it), beside the run if `mlflow` logs it there. */
export function mlflowTraces({
  project,
  environment = process.env,
  uri = environment['MLFLOW_TRACKING_URI'] ?? '',
  ...options
}: MlflowTracesOptions): Tracker {
  const client = mlflowClient(uri, environment);
  return traceTracker('mlflow traces', options, async ({ memory }, signal) => {
    const experiment = await client.experimentId(project, signal);
    return {
      url: `${client.url}/v1/traces`,
      place: `${client.url} ${project}`,
      headers: async () => {
        const runId = (await memory.read(mlflowRunKey(client.url, project)))?.['runId'];
        return {
          ...client.headers,
          'x-mlflow-experiment-id': experiment,
          ...(runId === undefined ? {} : { 'x-mlflow-run-id': runId }),
        };
      },
    };
  });
}

import type { Tracker } from '../tracker.ts';
import { HttpError } from '../trackers/http.ts';
import { mlflowRunKey } from '../trackers/mlflow.ts';
import { type Environment, mlflowClient } from '../trackers/mlflow-client.ts';
import { type TraceOptions, traceTracker } from './otlp.ts';

/** Which MLflow server traces go to. */
export interface MlflowTracesOptions extends TraceOptions {
  /** URI of a tracking server; if not given, MLFLOW_TRACKING_URI. */
  readonly uri?: string;
  /** MLflow's experiment. */
  readonly project: string;
  readonly environment?: Environment;
}

// MLflow's limit.
const TRACES_PER_LINK = 100;

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
    const unlinked: string[] = [];
    const link = async (given: AbortSignal) => {
      const runId = (await memory.read(mlflowRunKey(client.url, project)))?.['runId'];
      if (runId === undefined) return; // not logged there, or not made yet
      while (unlinked.length > 0) {
        const ids = unlinked.slice(0, TRACES_PER_LINK).map((id) => `tr-${id}`);
        await client
          .post('traces/link-to-run', { trace_ids: ids, run_id: runId }, given)
          .catch((error: unknown) => {
            if (!(error instanceof HttpError) || error.status !== 404) throw error; // older servers link no traces
          });
        unlinked.splice(0, ids.length);
      }
    };
    return {
      url: `${client.url}/v1/traces`,
      place: `${client.url} ${project}`,
      headers: async () => ({ ...client.headers, 'x-mlflow-experiment-id': experiment }),
      sent: async (traceIds, given) => {
        unlinked.push(...traceIds);
        await link(given);
      },
      close: link,
    };
  });
}

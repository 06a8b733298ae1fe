import { ConfigError } from '../../errors.ts';
import type { Tracker } from '../tracker.ts';
import { HttpError, request } from '../trackers/http.ts';
import { mlflowRunKey } from '../trackers/mlflow.ts';
import type { Environment } from '../trackers/mlflow-runs.ts';
import { mlflowStore } from '../trackers/mlflow-store.ts';
import { type TraceOptions, traceTracker } from './otlp.ts';

/** Which MLflow store traces go to. */
export interface MlflowTracesOptions extends TraceOptions {
  /** A server (`http:`) or a database (`sqlite:`); if not given, MLFLOW_TRACKING_URI. */
  readonly uri?: string;
  /** MLflow's experiment. */
  readonly project: string;
  readonly environment?: Environment;
}

// MLflow's limit.
const TRACES_PER_LINK = 100;

/** Traces to MLflow (3.6 and newer, with a database behind it), beside the run if `mlflow` logs it there. */
export function mlflowTraces({
  project,
  environment = process.env,
  uri = environment['MLFLOW_TRACKING_URI'] ?? '',
  ...options
}: MlflowTracesOptions): Tracker {
  const store = mlflowStore(uri, environment);
  const { address } = store;
  if (address === undefined) {
    throw new ConfigError(
      `MLflow keeps no traces of ours in a folder, and MLFLOW_TRACKING_URI is ${JSON.stringify(uri)}; use a database ` +
        '(sqlite:///mlflow.db) or a server for trace.backend=mlflow, or leave trace.backend out',
    );
  }
  return traceTracker(
    'mlflow traces',
    { ...options, patienceMs: store.patienceMs },
    async ({ memory }, signal) => {
      const runs = await store.open(signal);
      const { url, headers } = await address(signal);
      const experiment = await runs.experimentId(project, signal);
      const unlinked: string[] = [];
      const link = async (given: AbortSignal) => {
        const runId = (await memory.read(mlflowRunKey(store.place, project)))?.['runId'];
        if (runId === undefined) return; // not logged there, or not made yet
        while (unlinked.length > 0) {
          const ids = unlinked.slice(0, TRACES_PER_LINK).map((id) => `tr-${id}`);
          const body = { trace_ids: ids, run_id: runId };
          await request(`${url}/api/2.0/mlflow/traces/link-to-run`, { headers, body, signal: given }).catch(
            (error: unknown) => {
              if (!(error instanceof HttpError) || error.status !== 404) throw error; // older servers link no traces
            },
          );
          unlinked.splice(0, ids.length);
        }
      };
      return {
        url: `${url}/v1/traces`,
        place: `${store.place} ${project}`,
        headers: async () => ({ ...headers, 'x-mlflow-experiment-id': experiment }),
        sent: async (traceIds, given) => {
          unlinked.push(...traceIds);
          await link(given);
        },
        close: async (given) => {
          await link(given);
          await store.close();
        },
      };
    },
  );
}

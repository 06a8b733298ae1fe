import { ConfigError } from '../../errors.ts';
import { TrackerRefusal } from '../tracker.ts';
import { basic, HttpError, request, splitCredentials } from './http.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** MLflow's REST API as far as a run needs it. */
export interface MlflowClient {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  get(path: string, query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<unknown>;
  post(path: string, body: object, signal: AbortSignal): Promise<unknown>;
  /** The experiment with this name, created if there is none. */
  experimentId(name: string, signal: AbortSignal): Promise<string>;
}

/**
 * `uri` is the address of a tracking server; credentials come from it or, as everywhere with MLflow, from the
 * environment. A database or folder (`sqlite:`, `file:`) is for MLflow's server only and refused.
 */
export function mlflowClient(uri: string, environment: Environment): MlflowClient {
  if (!/^https?:\/\//.test(uri)) throw new ConfigError(notAServer(uri));
  const { url, headers: fromUri } = splitCredentials(uri);
  const headers = { ...fromUri, ...authorization(environment) };
  const call = (path: string) => `${url}/api/2.0/mlflow/${path}`;
  const client: MlflowClient = {
    url,
    headers,
    get: (path, query, signal) =>
      request(`${call(path)}?${new URLSearchParams(query)}`, { method: 'GET', headers, signal }),
    post: (path, body, signal) => request(call(path), { headers, body, signal }),
    experimentId: async (name, signal) => {
      const find = async () => {
        const answer = await client.get('experiments/get-by-name', { experiment_name: name }, signal);
        return (answer as { experiment: { experiment_id: string } }).experiment.experiment_id;
      };
      try {
        return await find();
      } catch (error) {
        if (!(error instanceof HttpError) || error.status !== 404) throw error;
      }
      try {
        const answer = await client.post('experiments/create', { name }, signal);
        return (answer as { experiment_id: string }).experiment_id;
      } catch (error) {
        if (error instanceof TrackerRefusal) return await find(); // made by another meanwhile
        throw error;
      }
    },
  };
  return client;
}

function authorization({
  MLFLOW_TRACKING_TOKEN: token,
  MLFLOW_TRACKING_USERNAME: user,
  MLFLOW_TRACKING_PASSWORD: password,
}: Environment): Record<string, string> {
  if (user && password) return basic(user, password);
  return token ? { authorization: `Bearer ${token}` } : {};
}

function notAServer(uri: string): string {
  const server = 'http://127.0.0.1:5000';
  const store = /^(sqlite|file|postgresql|mysql|mssql):|^[./~]/.test(uri);
  return (
    `the MLflow tracking URI ${JSON.stringify(uri)} is not an HTTP server; ` +
    (store
      ? `start one on it (mlflow server --backend-store-uri ${uri} --port 5000), set MLFLOW_TRACKING_URI=${server}, `
      : `use an address such as ${server}, `) +
    `or train without it and send the run afterwards: rollcall export RUN --to mlflow=${server}`
  );
}

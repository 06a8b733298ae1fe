/** Where MLflow keeps runs, by its tracking URI: a server, a database of this machine, or a folder. */
import { ConfigError } from '../../errors.ts';
import { basic, splitCredentials } from './http.ts';
import { mlflowFiles } from './mlflow-files.ts';
import { mlflowHttp } from './mlflow-http.ts';
import type { Environment, MlflowAddress, MlflowRuns } from './mlflow-runs.ts';
import { databaseServer } from './mlflow-server.ts';

export interface MlflowStore {
  /** Its name in `trackers.json` and on the command line: the same in every process. */
  readonly place: string;
  /** How long a call may take, where a program must be started first. */
  readonly patienceMs?: number;
  open(signal: AbortSignal): Promise<MlflowRuns>;
  /** The server that takes traces; undefined where there is none. */
  readonly address: ((signal: AbortSignal) => Promise<MlflowAddress>) | undefined;
  close(): Promise<void>;
}

const DATABASE = /^(sqlite|postgresql|mysql|mssql)(\+\w+)?:/;
const FOLDER = /^file:|^[./~]/;

/** Credentials come from the URI or, as everywhere with MLflow, from the environment. */
export function mlflowStore(uri: string, environment: Environment): MlflowStore {
  if (/^https?:\/\//.test(uri)) {
    const { url, headers } = splitCredentials(uri);
    const address = { url, headers: { ...headers, ...authorization(environment) } };
    return {
      place: url,
      open: async () => mlflowHttp(address),
      address: async () => address,
      close: async () => {},
    };
  }
  if (DATABASE.test(uri)) {
    const server = databaseServer(uri, environment);
    const address = async (signal: AbortSignal) => ({ url: await server.url(signal), headers: {} });
    const open = async (signal: AbortSignal) => mlflowHttp(await address(signal));
    return { place: uri, patienceMs: server.startMs, open, address, close: server.release };
  }
  if (FOLDER.test(uri)) {
    return { place: uri, open: async () => mlflowFiles(uri), address: undefined, close: async () => {} };
  }
  throw new ConfigError(
    `the MLflow tracking URI is ${JSON.stringify(uri)}; use a server (http://127.0.0.1:5000), a database ` +
      '(sqlite:///mlflow.db) or a folder (./mlruns), or train without it and send the run afterwards: ' +
      'rollcall export RUN --to mlflow=http://127.0.0.1:5000',
  );
}

function authorization({
  MLFLOW_TRACKING_TOKEN: token,
  MLFLOW_TRACKING_USERNAME: user,
  MLFLOW_TRACKING_PASSWORD: password,
}: Environment): Readonly<Record<string, string>> {
  if (user && password) return basic(user, password);
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** An engine that serves over HTTP: how a run talks to its servers, and how it starts them. */

import type { ImageRef } from '../types.ts';
import type { CheckedServer } from './check-server.ts';
import type { HttpOptions } from './http/client.ts';

/** An inference engine in the registry: how to connect to it, how to start it, what it can. */
export interface Engine {
  readonly name: string;
  /** The client of a server that runs. */
  connect(options: HttpServerOptions): CheckedServer;
  /** How a server is started; absent where this machine cannot start one. */
  readonly launch?: LaunchRecipe;
  /** Versions that were run with this Rollcall: docs/servers.md says how. Another one is reported. */
  readonly tested?: readonly string[];
  /** What verl calls it in `actor_rollout_ref.rollout.name`. */
  readonly verlNames?: readonly string[];
}

/** Where an HTTP server is, what it does not say about itself, and how long updates may take. */
export interface HttpServerOptions extends HttpOptions {
  readonly url: string;
  /** Version of the weights the server runs with now. */
  readonly version?: number;
  /** Context length, for a server that does not report it. */
  readonly contextTokens?: number;
  /** The bytes of an image, for models that see. */
  readonly readImage?: (image: ImageRef) => Promise<Uint8Array>;
  /** Loading large weights takes minutes. */
  readonly updateTimeoutMs?: number;
  /** Whether requests carry a seed; default true. */
  readonly seeds?: boolean;
}

/** How an engine is started as a process. */
export interface LaunchRecipe {
  /** The program; found in PATH unless it is a path. */
  readonly program: string;
  /** The Python package behind it, which `pip install` gets and which tells its version; absent where there is none. */
  readonly package?: string;
  /** Flag for the API key, where a server does not read it from its environment. */
  readonly keyFlag?: string;
  /** Whether servers run on GPUs, which are then divided among them. */
  readonly onGpus: boolean;
  /** Settings that it does not read. */
  readonly ignores?: readonly (keyof LaunchOptions)[];
  /** `release` is the version that was found, such as `0.32.0`. */
  command(
    options: LaunchOptions,
    port: number,
    release?: string,
  ): Pick<LaunchCommand, 'arguments' | 'environment'>;
}

/** How many servers are started, on which ports and GPUs. */
export interface LaunchOptions {
  readonly model: string;
  /** Address that servers listen on; default loopback. */
  readonly host?: string;
  /** CPU threads of one server, for engines on the CPU; default this machine's, divided. */
  readonly threads?: number;
  /** Port of the first server; each further one takes the next. */
  readonly portStart: number;
  readonly replicas: number;
  /** GPUs of one server. */
  readonly tensorParallel: number;
  /** Share of GPU memory. */
  readonly memoryShare: number;
  readonly logLevel: 'debug' | 'info' | 'warning' | 'error';
  /** GPUs that may be used, as in CUDA_VISIBLE_DEVICES; default what that names, else the first ones. */
  readonly gpus?: readonly string[];
  /** Instead of the recipe's: a path of `vllm`, or of the `python3` that has SGLang. */
  readonly program?: string;
  /** More flags for the command line. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** The servers can free the GPU's memory for a trainer that shares it. */
  readonly sleeps?: boolean;
  /** Highest rank of the adapters, where adapters are sent. */
  readonly loraRank?: number;
}

/** One process to start: its program, its arguments and its environment. */
export interface LaunchCommand {
  readonly program: string;
  readonly arguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly url: string;
}

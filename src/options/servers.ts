/** Servers at URLs, or started here: weights go to them through a folder. */
import { resolve } from 'node:path';
import { loadModelFiles } from '../chat/model-files.ts';
import { ConfigError, EngineError } from '../errors.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { type CheckedServer, checkServer } from '../inference/check-server.ts';
import { type Launched, type LaunchOptions, launchCommands, startServers } from '../inference/launch.ts';
import { type HttpServerOptions, SglangServer } from '../inference/sglang.ts';
import { VllmServer } from '../inference/vllm.ts';
import { realClock, sleep } from '../lib/clock.ts';

export interface ServersOptions {
  /** Servers that run, such as `http://gpu-1:30000`; one per replica. */
  readonly urls?: readonly string[];
  /** Servers to start here, instead of `urls`, and to stop when the run ends. */
  readonly launch?: Partial<Omit<LaunchOptions, 'engine' | 'model'>>;
  /** `rollcall` is `rollcall serve`, which speaks SGLang's protocol. */
  readonly engine: 'sglang' | 'vllm' | 'rollcall';
  /** A folder that this process and all servers see under the same path; default a temporary one of this machine. */
  readonly weightsDirectory?: string;
  /** `adapter`: servers get the low-rank matrices only, from a trainer that was opened with `lora`. */
  readonly send?: 'weights' | 'adapter';
  /** How long the servers may take to be ready. */
  readonly startSeconds?: number;
  /** Of calls other than replies. */
  readonly timeoutSeconds?: number;
  readonly gateway?: GatewayOptions;
  readonly http?: Omit<HttpServerOptions, 'url' | 'version' | 'timeoutMs'>;
  /** Receives one line when a server is lost or back; default standard error. */
  readonly log?: (line: string) => void;
}

/** Long enough that tokenizers of different models disagree on it. */
const CHECK_TEXT = 'Compute 12×(34+5), then say “done” – naïve café, 東京.\n';
const POLL_MS = 500;

/** `train({ servers: servers({ urls: ['http://gpu-1:30000', 'http://gpu-2:30000'], engine: 'sglang' }) })` */
export function servers(options: ServersOptions): ServerFactory {
  const { urls = [], engine, launch, weightsDirectory, send = 'weights' } = options;
  if (launch && urls.length > 0)
    throw new ConfigError('urls and launch are both given; servers run or are started');
  if (!launch && urls.length === 0)
    throw new ConfigError('urls is empty; give the address of at least one server');
  const twice = urls.find((url, at) => urls.indexOf(url) !== at);
  if (twice !== undefined) throw new ConfigError(`urls names ${twice} twice`);
  const log = options.log ?? ((line) => process.stderr.write(`${line}\n`));
  return {
    name: engine,
    sendsFirst: true,
    gateway: { whileUpdating: 'wait', log, ...options.gateway },
    disk: { send, ...(weightsDirectory === undefined ? {} : { directory: weightsDirectory }) },
    open: async (model, files = {}) => {
      const given = { ...options, http: { ...files, ...options.http } };
      const { tokenizer } = await loadModelFiles(model);
      const ids = tokenizer.encode(CHECK_TEXT);
      const expected = { text: CHECK_TEXT, ids, vocabulary: tokenizer.vocabularySize };
      const launched = launch ? await start(launch, model, options) : [];
      const opened = launch
        ? launched.map((server) => closingBoth(openAdapter(server.url, given), server))
        : urls.map((url) => openAdapter(url, given));
      try {
        await Promise.all(
          opened.map(async (server) => {
            await untilReady(server, options.startSeconds ?? 300);
            await checkServer(server, expected);
          }),
        );
        return opened;
      } catch (error) {
        await Promise.all(opened.map((server) => server.close()));
        throw error;
      }
    },
  };
}

const LAUNCH = {
  portStart: 30_000,
  replicas: 1,
  tensorParallel: 1,
  memoryShare: 0.5,
  logLevel: 'warning',
} as const;

async function start(
  launch: NonNullable<ServersOptions['launch']>,
  model: string,
  options: ServersOptions,
): Promise<Launched[]> {
  const { engine, startSeconds = 300 } = options;
  const ready = async (url: string) => {
    const server = openAdapter(url, options);
    try {
      return await server.ready();
    } finally {
      await server.close();
    }
  };
  const commands = launchCommands({ ...LAUNCH, ...launch, engine, model: resolve(model) }, process.env);
  return startServers(commands, { startSeconds, ready });
}

/** The adapter of a server started here ends it when it is closed. */
function closingBoth(server: CheckedServer, started: Launched): CheckedServer {
  const close = server.close.bind(server);
  server.close = async () => {
    await close();
    await started.stop();
  };
  return server;
}

function openAdapter(url: string, { engine, http, timeoutSeconds = 60 }: ServersOptions): CheckedServer {
  const given = { ...http, url, timeoutMs: timeoutSeconds * 1000 };
  return engine === 'vllm' ? new VllmServer(given) : new SglangServer(given);
}

async function untilReady(server: CheckedServer, seconds: number): Promise<void> {
  const clock = realClock();
  while (!(await server.ready())) {
    if (clock.now() > seconds * 1000) throw new EngineError(`${server.url} was not ready in ${seconds} s`);
    await sleep(clock, POLL_MS);
  }
}

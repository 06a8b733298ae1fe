/** Servers at URLs, or started here: weights go to them through a folder. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { loadModelFiles } from '../chat/model-files.ts';
import { ConfigError } from '../errors.ts';
import type { GatewayOptions } from '../gateway/gateway.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { type CheckedServer, checkServer } from '../inference/check-server.ts';
import type { Engine, HttpServerOptions, LaunchOptions } from '../inference/engine.ts';
import { engineNamed } from '../inference/engines.ts';
import { HttpClient } from '../inference/http/client.ts';
import { installedRelease } from '../inference/installed-engine.ts';
import { type Launched, startServers } from '../inference/launch.ts';
import { launchCommands } from '../inference/launch-commands.ts';
import { noticesOf } from '../inference/tested-releases.ts';
import { untilReady } from '../inference/until-ready.ts';

/** Where inference servers are, or how they are started, and how weights reach them. */
export interface ServersOptions {
  /** Servers that run, such as `http://gpu-1:30000`; one per replica. */
  readonly urls?: readonly string[];
  /** Servers to start here, instead of `urls`, and to stop when the run ends. */
  readonly launch?: Partial<Omit<LaunchOptions, 'model' | 'loraRank'>>;
  /** `rollcall` (that is `rollcall serve`), `sglang`, `vllm`, or your own engine. */
  readonly engine: string | Engine;
  /** A folder that this process and all servers see under the same path; default a temporary one of this machine. */
  readonly weightsDirectory?: string;
  /** Where servers share no disk with the trainer: an address that brings a version's folder to a server's machine. */
  readonly bring?: string;
  /** `adapter`: servers get the low-rank matrices only, from a trainer that was opened with `lora`. */
  readonly send?: 'weights' | 'adapter';
  /** Servers free their GPU's memory while the trainer works on the same GPU. */
  readonly sleepWhileTraining?: boolean;
  /** How long the servers may take to be ready. */
  readonly startSeconds?: number;
  /** Time limit of calls other than replies. */
  readonly timeoutSeconds?: number;
  readonly gateway?: GatewayOptions;
  /** The API key that the servers were started with. */
  readonly apiKey?: string | undefined;
  readonly http?: Omit<HttpServerOptions, 'url' | 'version' | 'timeoutMs' | 'apiKey'>;
  /** Receives one line when a server is lost or back; default standard error. */
  readonly log?: (line: string) => void;
}

/** Long enough that tokenizers of different models disagree on it. */
const CHECK_TEXT = 'Compute 12×(34+5), then say “done” – naïve café, 東京.\n';

/** Servers over HTTP: `train({ servers: servers({ urls: ['http://gpu-1:30000', 'http://gpu-2:30000'], engine: 'sglang' }) })`. */
export function servers(options: ServersOptions): ServerFactory {
  const { urls = [], launch, weightsDirectory, send = 'weights', startSeconds = 300 } = options;
  const timeoutMs = 1000 * (options.timeoutSeconds ?? 60);
  const engine = typeof options.engine === 'string' ? engineNamed(options.engine, 'engine') : options.engine;
  if (launch && urls.length > 0)
    throw new ConfigError('urls and launch are both given; servers run or are started');
  if (!launch && urls.length === 0)
    throw new ConfigError('urls is empty; give the address of at least one server');
  const twice = urls.find((url, at) => urls.indexOf(url) !== at);
  if (twice !== undefined) throw new ConfigError(`urls names ${twice} twice`);
  const log = options.log ?? ((line) => process.stderr.write(`${line}\n`));
  return {
    name: engine.name,
    sendsFirst: true,
    sleepWhileTraining: options.sleepWhileTraining ?? false,
    gateway: { whileUpdating: 'wait', restartSeconds: startSeconds, log, ...options.gateway },
    disk: { send, ...(weightsDirectory === undefined ? {} : { directory: weightsDirectory }) },
    open: async (model, { readImage, logDirectory, loraRank, signal } = {}) => {
      const files = readImage ? { readImage } : {};
      const connect = (url: string) => {
        const server = engine.connect({ ...files, ...options.http, apiKey: options.apiKey, url, timeoutMs });
        return options.bring === undefined ? server : bringingWeights(server, options.bring);
      };
      const { tokenizer } = await loadModelFiles(model);
      const ids = tokenizer.encode(CHECK_TEXT);
      const expected = { text: CHECK_TEXT, ids, vocabulary: tokenizer.vocabularySize };
      const start = async (given: NonNullable<ServersOptions['launch']>) => {
        const release = await installedRelease(engine, given.program);
        const lora = loraRank === undefined ? {} : { loraRank };
        const sleeps = options.sleepWhileTraining ?? false;
        const launching = { ...LAUNCH, sleeps, ...given, ...lora, model: resolve(model) };
        return startServers(launchCommands(engine, launching, process.env, release), {
          startSeconds,
          ready: (url) => isReady(connect(url)),
          logDirectory: logDirectory ?? (await mkdtemp(join(tmpdir(), 'rollcall-servers-'))),
          log,
          signal,
        });
      };
      const opened = launch
        ? (await start(launch)).map((started) => closingBoth(connect(started.url), started))
        : urls.map(connect);
      try {
        await Promise.all(
          opened.map(async (server) => {
            await untilReady(server, { seconds: startSeconds, log, signal });
            const info = await checkServer(server, expected);
            for (const notice of noticesOf(server.url, info, engine.tested)) log(notice);
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

/** The adapter of a server started here ends it when it is closed. */
function closingBoth(server: CheckedServer, started: Launched): CheckedServer {
  const close = server.close.bind(server);
  server.close = async () => {
    await close();
    await started.stop();
  };
  return server;
}

/** Copying large weights between machines takes minutes. */
const BRING_MS = 30 * 60_000;

/** The folder of a version is on the server's machine before the server is told to load it. */
function bringingWeights(server: CheckedServer, address: string): CheckedServer {
  const bringing = new HttpClient(address);
  const update = server.update.bind(server);
  server.update = async (weights) => {
    if (weights.kind === 'disk' || weights.kind === 'lora') {
      const body = { server: server.url, path: weights.path };
      await bringing.tell('/', { body, timeoutMs: BRING_MS });
    }
    await update(weights);
  };
  const close = server.close.bind(server);
  server.close = async () => {
    await bringing.close();
    await close();
  };
  return server;
}

/** Closed again at once: the server may not be there yet. */
async function isReady(server: CheckedServer): Promise<boolean> {
  try {
    return await server.ready();
  } finally {
    await server.close();
  }
}

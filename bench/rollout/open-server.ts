/** The server that a bench measures: one that runs at a URL, or a real one that is started here on the CPU. */
import { resolve } from 'node:path';
import { smallModels } from '../../scripts/servers/models.ts';
import { install, REAL_SERVERS } from '../../scripts/servers/real-server.ts';
import { warmStart } from '../../scripts/short-run.ts';
import { loadModelFiles } from '../../src/chat/model-files.ts';
import { ConfigError } from '../../src/errors.ts';
import { engineNamed } from '../../src/inference/engines.ts';
import { installedRelease } from '../../src/inference/installed-engine.ts';
import { startServers } from '../../src/inference/launch.ts';
import { launchCommands } from '../../src/inference/launch-commands.ts';
import type { InferenceServer } from '../../src/inference/server.ts';

/** Flags of a bench that say which server is measured. */
export const SERVER_FLAGS = {
  url: '',
  engine: 'vllm',
  model: '',
  'api-key': '',
  runs: 'runs/prove-servers',
};

export interface OpenServer {
  readonly url: string;
  /** Folder of the model. */
  readonly model: string;
  /** Ids below this number are the model's. */
  readonly vocabulary: number;
  /** At its own address, or at that of a proxy before it. */
  connect(url?: string): InferenceServer;
  stop(): Promise<void>;
}

const PORT = 38_000;

export async function openServer(
  flags: Readonly<Record<keyof typeof SERVER_FLAGS, string>>,
  say: (line: string) => void,
): Promise<OpenServer> {
  if (flags.url !== '' && flags.model === '') {
    throw new ConfigError(
      `--url ${flags.url} is given without --model; give the folder of the model that it serves`,
    );
  }
  const engine = engineNamed(flags.engine, '--engine');
  const apiKey = flags['api-key'] === '' ? undefined : flags['api-key'];
  const connectTo = (url: string) => engine.connect({ url, apiKey });
  const started =
    flags.url === '' ? await startOnCpu() : { url: flags.url, model: flags.model, stop: async () => {} };
  const { tokenizer } = await loadModelFiles(started.model);
  return {
    ...started,
    vocabulary: tokenizer.vocabularySize,
    connect: (url = started.url) => connectTo(url),
  };

  async function startOnCpu() {
    const real = Object.values(REAL_SERVERS).find((one) => one.engine === flags.engine);
    if (!real)
      throw new ConfigError(`--engine ${flags.engine} cannot be started here; give --url and --model`);
    await install(real, say);
    const warm = await warmStart(flags.runs, { seed: 1, variant: 'short' });
    const { untied } = smallModels(warm, resolve(flags.runs, 'models'));
    const sizes = { replicas: 1, tensorParallel: 1, memoryShare: 0.5, logLevel: 'warning' } as const;
    const launch = { ...sizes, ...real.launch, program: real.program, portStart: PORT, model: untied };
    const release = await installedRelease(engine, real.program);
    const ready = async (url: string) => {
      const probe = connectTo(url);
      const isReady = await probe.ready();
      await probe.close();
      return isReady;
    };
    const [server] = await startServers(launchCommands(engine, launch, process.env, release), {
      startSeconds: 600,
      ready,
      logDirectory: resolve(flags.runs, 'logs'),
      log: say,
    });
    return { url: server!.url, model: untied, stop: () => server!.stop() };
  }
}

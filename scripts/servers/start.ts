/** Starts a real server as a run would. */
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { LaunchCommand } from '../../src/inference/engine.ts';
import { engineNamed } from '../../src/inference/engines.ts';
import { installedRelease } from '../../src/inference/installed-engine.ts';
import { type Launched, startServers } from '../../src/inference/launch.ts';
import { launchCommands } from '../../src/inference/launch-commands.ts';
import type { RealServer } from './real-server.ts';

export const START_SECONDS = 600;

/** With adapters of up to `loraRank`, where it is given. */
export async function startReal(
  real: RealServer,
  model: string,
  { directory, say, ...more }: StartReal,
): Promise<Launched> {
  const engine = engineNamed(real.engine, 'engine');
  const [command] = await realCommands(real, model, more);
  say(`starting ${command!.program} ${command!.arguments.join(' ')}`);
  const ready = async (url: string) => {
    const server = engine.connect({ url });
    const isReady = await server.ready();
    await server.close();
    return isReady;
  };
  const logDirectory = join(directory, 'logs');
  const [server] = await startServers([command!], {
    startSeconds: START_SECONDS,
    ready,
    logDirectory,
    log: say,
  });
  await wait(500);
  return server!;
}

interface StartReal {
  /** For what it prints. */
  readonly directory: string;
  readonly say: (line: string) => void;
  readonly loraRank?: number;
}

export async function realCommands(
  { engine: name, launch, program, loraFlags }: RealServer,
  model: string,
  more: { readonly loraRank?: number } = {},
): Promise<LaunchCommand[]> {
  const engine = engineNamed(name, 'engine');
  const flags = [...(launch.flags ?? []), ...(more.loraRank === undefined ? [] : loraFlags)];
  const portStart = await freePort();
  const sizes = { replicas: 1, tensorParallel: 1, memoryShare: 0.5, logLevel: 'warning' } as const;
  const given = { ...sizes, ...launch, ...more, program, flags, portStart, model: resolve(model) };
  return launchCommands(engine, given, process.env, await installedRelease(engine, program));
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

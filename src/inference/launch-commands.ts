import { ConfigError } from '../errors.ts';
import type { Engine, LaunchCommand, LaunchOptions } from './engine.ts';

/**
 * One command line per replica, with the visible GPUs divided among them where they run on GPUs. `release` is the engine's
 * version, where it is known.
 */
export function launchCommands(
  { name, launch }: Pick<Engine, 'name' | 'launch'>,
  options: LaunchOptions,
  environment: Readonly<Record<string, string | undefined>>,
  release?: string,
): LaunchCommand[] {
  if (!launch) throw new ConfigError(`servers of ${name} cannot be started here; give urls of running ones`);
  const gpusOf = launch.onGpus ? divideGpus(options, environment) : undefined;
  return Array.from({ length: options.replicas }, (_, replica) => {
    const port = options.portStart + replica;
    const command = launch.command(options, port, release);
    const gpus = gpusOf && { CUDA_VISIBLE_DEVICES: gpusOf(replica) };
    return {
      program: options.program ?? launch.program,
      arguments: [...command.arguments, ...(options.flags ?? [])],
      environment: { ...command.environment, ...gpus, ...options.environment },
      url: `http://127.0.0.1:${port}`,
    };
  });
}

function divideGpus(
  { replicas, tensorParallel, gpus }: LaunchOptions,
  environment: Readonly<Record<string, string | undefined>>,
): (replica: number) => string {
  const needed = replicas * tensorParallel;
  const named = environment['CUDA_VISIBLE_DEVICES'];
  const visible =
    gpus ?? named?.split(',').filter(Boolean) ?? Array.from({ length: needed }, (_, gpu) => String(gpu));
  if (visible.length < needed) {
    throw new ConfigError(
      `${replicas} servers of ${tensorParallel} GPUs need ${needed}; visible are ${visible.length} (${visible.join(',') || 'none'})`,
    );
  }
  return (replica) => visible.slice(replica * tensorParallel, (replica + 1) * tensorParallel).join(',');
}

import { engineNamed } from '../inference/engines.ts';
import { countGpus, installedRelease } from '../inference/installed-engine.ts';
import { refuseTakenPort } from '../inference/launch.ts';
import { messageOf } from '../lib/error-message.ts';
import { needsNoServer } from './engines.ts';
import type { DescribedRun } from './schema.ts';

/** What servers that a run would start do not find on this machine: engine, ports, GPUs. For --dry-run. */
export async function findMissingServers(described: DescribedRun['servers']): Promise<string[]> {
  const { mode, program, portStart, replicas, tensorParallel } = described;
  if (mode === 'server' || needsNoServer(described.engine)) return [];
  const missing: string[] = [];
  const check = async (what: Promise<unknown>) => {
    await what.catch((error: unknown) => missing.push(`servers: ${messageOf(error)}`));
  };
  const engine = engineNamed(described.engine, 'servers.engine');
  await check(installedRelease(engine, program ?? undefined));
  for (let replica = 0; replica < replicas; replica++) {
    await check(refuseTakenPort(`http://127.0.0.1:${portStart + replica}`));
  }
  if (!engine.launch?.onGpus) return missing;
  const gpus = await countGpus();
  const needed = replicas * tensorParallel;
  if (gpus === undefined) {
    missing.push(`servers: nvidia-smi does not answer here, and ${needed} GPUs are needed`);
  } else if (gpus < needed) {
    missing.push(`servers: ${replicas} servers of ${tensorParallel} GPUs need ${needed}; there are ${gpus}`);
  }
  return missing;
}

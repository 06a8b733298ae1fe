import { availableParallelism } from 'node:os';
import { ConfigError, EngineError } from '../../errors.ts';
import { messageOf } from '../../lib/error-message.ts';
import type { Backend } from './backend.ts';
import { KernelSet } from './kernel-set.ts';
import type { KernelOptions, Kernels } from './kernels.ts';
import { loadNative } from './native.ts';
import { loadWasm } from './wasm.ts';

const logToStderr = (line: string) => process.stderr.write(`rollcall: ${line}\n`);

function forcedKind(options: KernelOptions): 'native' | 'wasm' | undefined {
  const wanted = options.kind ?? (process.env['ROLLCALL_KERNELS'] || undefined);
  if (wanted === undefined || wanted === 'native' || wanted === 'wasm') return wanted;
  throw new ConfigError(`ROLLCALL_KERNELS is "${wanted}"; it can be "native" or "wasm"`);
}

/**
 * An instance of the kernels for the calling thread: the native build where this machine can compile it, else wasm.
 * One that is forced and fails is an error.
 */
export async function openKernels(options: KernelOptions = {}): Promise<Kernels> {
  const { threads = availableParallelism(), log = logToStderr } = options;
  if (!Number.isInteger(threads) || threads < 1 || threads > 256) {
    throw new ConfigError(`threads is ${threads}; it must be a whole number from 1 to 256`);
  }
  return new KernelSet(await loadBackend(forcedKind(options), threads, log));
}

async function loadBackend(
  kind: 'native' | 'wasm' | undefined,
  threads: number,
  log: (line: string) => void,
): Promise<Backend> {
  if (kind === 'wasm') return loadWasm(threads);
  try {
    return await loadNative(threads, log);
  } catch (error) {
    const reason = messageOf(error);
    if (kind === 'native') throw new EngineError(`no native kernels: ${reason}`, { cause: error });
    log(`using the wasm kernels, which are slower: ${reason}`);
    return loadWasm(threads);
  }
}

import { totalmem } from 'node:os';
import { EngineError } from '../../errors.ts';
import type { Backend } from './backend.ts';
import { buildAddon } from './native-build.ts';

interface NativeInstance {
  readonly arguments: ArrayBuffer;
  readonly low: number;
  readonly reserved: number;
  readonly threads: number;
  run(op: number): number;
  setHeap(end: number, workspace: number, workspaceBytes: number): boolean;
  view(address: number, bytes: number): ArrayBuffer | undefined;
  close(): void;
}

interface Addon {
  readonly opNames: string;
  create(threads: number, bytes: number): NativeInstance | undefined;
}

/** A view may span two of these, and a buffer covers two: so every view of up to this size has a buffer. */
const WINDOW = 2 ** 31;

function loadAddon(path: string): Addon {
  const loaded = { exports: {} };
  process.dlopen(loaded, path);
  return loaded.exports as Addon;
}

function memoryLimit(): number {
  const constrained = process.constrainedMemory?.() ?? 0;
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/** Builds the addon if it is not in the cache, loads it and makes an instance. Throws where that cannot be done. */
export async function loadNative(threads: number, log: (line: string) => void): Promise<Backend> {
  const { path, compiler } = await buildAddon(log);
  const addon = loadAddon(path);
  const instance = addon.create(threads, Math.max(2 ** 26, memoryLimit()));
  if (!instance) throw new EngineError('the native kernels could not reserve their memory');
  let end = 0;
  const windows = new Map<number, ArrayBuffer>();
  const bufferAt = (window: number, needed: number) => {
    const known = windows.get(window);
    if (known && known.byteLength >= needed) return known;
    const bytes = Math.min(2 * WINDOW, Math.max(end - window * WINDOW, needed));
    const made = instance.view(window * WINDOW, bytes);
    if (!made) throw new EngineError(`no view of the heap from ${window * WINDOW} on`);
    windows.set(window, made);
    return made;
  };
  return {
    kind: 'native',
    description: `native kernels (${compiler}), ${instance.threads} threads`,
    threads: instance.threads,
    low: instance.low,
    maximumBytes: instance.reserved,
    opNames: addon.opNames.trim().split(' '),
    arguments: new Float64Array(instance.arguments),
    run: (op) => instance.run(op),
    setHeap: (to, workspace, workspaceBytes) => {
      const fits = instance.setHeap(to, workspace, workspaceBytes);
      if (fits) end = to;
      return fits;
    },
    locate: (address, bytes) => {
      if (bytes > WINDOW) throw new EngineError(`a view of ${bytes} bytes is too large: at most ${WINDOW}`);
      const window = Math.floor(address / WINDOW);
      const offset = address - window * WINDOW;
      return { buffer: bufferAt(window, offset + bytes), offset };
    },
    close: async () => {
      windows.clear();
      instance.close();
    },
  };
}

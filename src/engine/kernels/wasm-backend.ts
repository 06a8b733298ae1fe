/** The kernels' wasm module as a backend. Nothing here needs Node: a page runs it too. */
import { EngineError } from '../../errors.ts';
import type { Backend } from './backend.ts';
import { DETAILS } from './backend.ts';

const PAGE = 65536;
/** 4 GiB less the last page, so that every end of a range is a 32-bit number. */
const MOST_PAGES = 65535;

interface WasmKernels {
  start(threads: number, memory: number): number;
  argumentsAt(): number;
  opNamesAt(): number;
  setHeap(end: number, workspace: number, workspaceBytes: number): void;
  run(op: number): number;
  stop(): void;
}

/** A thread beside the calling one; `terminate` ends it. */
export interface WasmThread {
  readonly ready: Promise<void>;
  terminate(): Promise<unknown>;
}

export type StartThread = (data: {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly thread: number;
}) => WasmThread;

/** Address space is reserved for the maximum; where that is refused, less will do. */
function makeMemory(): { memory: WebAssembly.Memory; pages: number } {
  for (let pages = MOST_PAGES; ; pages = Math.ceil(pages / 2)) {
    try {
      return { memory: new WebAssembly.Memory({ initial: 256, maximum: pages, shared: true }), pages };
    } catch (error) {
      if (pages < 1024) throw new EngineError('no memory for the wasm kernels', { cause: error });
    }
  }
}

function readText(memory: WebAssembly.Memory, address: number): string {
  const bytes = new Uint8Array(memory.buffer);
  return String.fromCharCode(...bytes.subarray(address, bytes.indexOf(0, address)));
}

export async function wasmBackend(
  module: WebAssembly.Module,
  threads = 1,
  startThread?: StartThread,
): Promise<Backend> {
  const { memory, pages } = makeMemory();
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  const kernels = exports as unknown as WasmKernels;
  const grow = (end: number) => {
    const missing = Math.ceil((end - memory.buffer.byteLength) / PAGE);
    try {
      if (missing > 0) memory.grow(missing);
      return true;
    } catch {
      return false;
    }
  };
  const low = kernels.start(threads, 0);
  if (!grow(low)) throw new EngineError(`no memory for ${threads} threads of the wasm kernels`);
  const others = Array.from({ length: threads - 1 }, (_, index) =>
    startThread!({ module, memory, thread: index + 1 }),
  );
  const stop = async () => {
    kernels.stop();
    await Promise.all(others.map((thread) => thread.terminate()));
  };
  try {
    await Promise.all(others.map(({ ready }) => ready));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    kind: 'wasm',
    description: `wasm kernels, ${threads} threads`,
    threads,
    low,
    maximumBytes: pages * PAGE,
    opNames: readText(memory, kernels.opNamesAt()).trim().split(' '),
    arguments: new Float64Array(memory.buffer, kernels.argumentsAt(), DETAILS + 8),
    run: (op) => kernels.run(op),
    setHeap: (end, workspace, workspaceBytes) => {
      if (!grow(end)) return false;
      kernels.setHeap(end, workspace, workspaceBytes);
      return true;
    },
    locate: (address) => ({ buffer: memory.buffer, offset: address }),
    close: stop,
  };
}

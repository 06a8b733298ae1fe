import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { EngineError } from '../../errors.ts';
import { startWorker } from '../../lib/worker.ts';
import type { Backend } from './backend.ts';
import { DETAILS } from './backend.ts';
import { nativeDirectory } from './native-directory.ts';

const PAGE = 65536;
/** 4 GiB less the last page, so that every end of a range is a 32-bit number. */
const MOST_PAGES = 65535;
const WORKER_START_MS = 60_000;

interface WasmKernels {
  start(threads: number, memory: number): number;
  argumentsAt(): number;
  opNamesAt(): number;
  setHeap(end: number, workspace: number, workspaceBytes: number): void;
  run(op: number): number;
  stop(): void;
}

let compiled: Promise<WebAssembly.Module> | undefined;

async function compile(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await readFile(join(nativeDirectory, 'kernels.wasm')));
}

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

/** Resolves when the thread is about to serve. */
function whenReady(worker: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new EngineError(`a thread did not start in ${WORKER_START_MS} ms`));
    const timer = setTimeout(late, WORKER_START_MS);
    const settle = (then: () => void) => {
      clearTimeout(timer);
      worker.removeAllListeners();
      then();
    };
    worker.once('message', () => settle(resolve));
    worker.once('error', (cause) =>
      settle(() => reject(new EngineError('a thread failed to start', { cause }))),
    );
    worker.once('exit', () => settle(() => reject(new EngineError('a thread ended at its start'))));
  });
}

function readText(memory: WebAssembly.Memory, address: number): string {
  const bytes = new Uint8Array(memory.buffer);
  return String.fromCharCode(...bytes.subarray(address, bytes.indexOf(0, address)));
}

export async function loadWasm(threads: number): Promise<Backend> {
  compiled ??= compile();
  const module = await compiled;
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
  const workers = Array.from({ length: threads - 1 }, (_, index) => {
    const worker = startWorker('./wasm-worker', import.meta.url, {
      workerData: { module, memory, thread: index + 1 },
    });
    worker.unref();
    return worker;
  });
  const stop = async () => {
    for (const worker of workers) worker.ref();
    kernels.stop();
    await Promise.all(workers.map((worker) => worker.terminate()));
  };
  try {
    await Promise.all(workers.map(whenReady));
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

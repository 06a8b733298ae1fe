import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { EngineError } from '../../errors.ts';
import { startWorker } from '../../lib/worker.ts';
import type { Backend } from './backend.ts';
import { nativeDirectory } from './native-directory.ts';
import { type StartThread, wasmBackend } from './wasm-backend.ts';

const WORKER_START_MS = 60_000;

let compiled: Promise<WebAssembly.Module> | undefined;

async function compile(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await readFile(join(nativeDirectory, 'kernels.wasm')));
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

const startThread: StartThread = (workerData) => {
  const worker = startWorker('./wasm-worker', import.meta.url, { workerData });
  worker.unref();
  return {
    ready: whenReady(worker),
    terminate: () => {
      worker.ref();
      return worker.terminate();
    },
  };
};

export async function loadWasm(threads: number): Promise<Backend> {
  compiled ??= compile();
  return wasmBackend(await compiled, threads, startThread);
}

/**
 * JavaScript in QuickJS, compiled to wasm, in a worker thread of its own with an empty environment. Three walls: the
 * interpreter knows no host objects; its memory is a wasm memory; the thread is ended if it does not answer in time.
 */
import type { Worker } from 'node:worker_threads';
import { startWorker } from '../worker.ts';
import type { Sandbox, SandboxLimits, SandboxResult, SandboxRunOptions } from './sandbox.ts';

/** A thread that has not started within this long is taken for dead. */
const START_MS = 30_000;

type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly result: Omit<SandboxResult, 'milliseconds'> };

export function openQuickJs(limits: SandboxLimits): Sandbox {
  const idle: Worker[] = [];
  const all = new Set<Worker>();

  async function take(signal: AbortSignal | undefined): Promise<Worker> {
    const known = idle.pop();
    known?.ref();
    if (known) return known;
    const worker = startWorker('./quickjs-worker', import.meta.url, {
      workerData: limits,
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 2 * limits.memoryMiB + 64 },
      stdin: false,
    });
    all.add(worker);
    const first = await messageFrom(worker, START_MS, signal);
    if (first?.kind === 'ready') return worker;
    await drop(worker);
    throw new Error('the sandbox for JavaScript did not start');
  }

  async function drop(worker: Worker): Promise<void> {
    all.delete(worker);
    await worker.terminate();
  }

  return {
    language: 'javascript',
    run: async (code: string, { stdin = '', signal }: SandboxRunOptions = {}) => {
      signal?.throwIfAborted();
      const worker = await take(signal);
      const began = performance.now();
      worker.postMessage({ code, stdin });
      // The interpreter looks at its own clock; the thread is ended for what the interpreter cannot interrupt.
      const answer = await messageFrom(worker, limits.milliseconds + 500, signal).catch(
        async (reason: unknown) => {
          await drop(worker);
          throw reason;
        },
      );
      const milliseconds = performance.now() - began;
      if (answer?.kind === 'done') {
        // A run that met a limit may have left the interpreter's heap in any state.
        if (answer.result.status === 'ok' || answer.result.status === 'error') {
          worker.unref(); // one that waits keeps no program alive
          idle.push(worker);
        } else await drop(worker);
        return { ...answer.result, milliseconds };
      }
      await drop(worker);
      return { status: answer === undefined ? 'timeout' : 'memory', stdout: '', stderr: '', milliseconds };
    },
    close: async () => {
      await Promise.all([...all].map(drop));
    },
  };
}

/** The next message; undefined after `milliseconds`; `gone` if the thread ended. */
function messageFrom(
  worker: Worker,
  milliseconds: number,
  signal: AbortSignal | undefined,
): Promise<FromWorker | { readonly kind: 'gone' } | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      clearTimeout(timer);
      worker.off('message', onMessage).off('error', onGone).off('exit', onGone);
      signal?.removeEventListener('abort', onAbort);
      act();
    };
    const timer = setTimeout(() => settle(() => resolve(undefined)), milliseconds);
    const onAbort = () => settle(() => reject(signal?.reason));
    signal?.addEventListener('abort', onAbort, { once: true });
    const onMessage = (message: FromWorker) => settle(() => resolve(message));
    const onGone = () => settle(() => resolve({ kind: 'gone' }));
    worker.on('message', onMessage).on('error', onGone).on('exit', onGone);
  });
}

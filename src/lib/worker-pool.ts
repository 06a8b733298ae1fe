/**
 * Worker threads that answer one question at a time. A thread says `{ ready: true }` once, then answers every message
 * with `{ value }` or `{ error }`. One that is late is ended, even in a loop that never yields.
 */
import type { Worker } from 'node:worker_threads';
import { type Clock, realClock } from './clock.ts';
import { semaphore } from './semaphore.ts';
import { withTimeLimit } from './time-limit.ts';

/** A thread that has not started within this long is taken for dead. */
const START_MS = 60_000;

export interface WorkerPool {
  /** Rejects with ThrownInside, TimeLimitReached, the signal's reason, or because the thread ended. */
  ask<R>(
    question: unknown,
    options: { readonly signal?: AbortSignal | undefined; readonly milliseconds?: number },
  ): Promise<R>;
  close(): Promise<void>;
}

/** What was asked threw; the thread is sound. */
export class ThrownInside extends Error {}

type FromWorker = { readonly ready: true } | { readonly value: unknown } | { readonly error: string };

/** Threads are started when they are needed, and keep no program alive while they wait. */
export function workerPool(start: () => Worker, size: number, clock: Clock = realClock()): WorkerPool {
  const slots = semaphore(size);
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  const forget = (worker: Worker) => {
    all.delete(worker);
    if (idle.includes(worker)) idle.splice(idle.indexOf(worker), 1);
  };
  const drop = async (worker: Worker) => {
    forget(worker);
    await worker.terminate();
  };
  const limited = <R>(
    work: (signal: AbortSignal) => Promise<R>,
    milliseconds: number,
    signal?: AbortSignal,
  ) => withTimeLimit(work, { milliseconds, clock, signal });

  async function take(signal: AbortSignal | undefined): Promise<Worker> {
    const known = idle.pop();
    if (known) return known;
    const worker = start();
    all.add(worker);
    // It may also end while nothing is asked of it: what a question left behind may throw later.
    worker.on('error', () => forget(worker)).on('exit', () => forget(worker));
    try {
      await limited((abort) => nextMessage(worker, abort), START_MS, signal);
      return worker;
    } catch (reason) {
      await drop(worker);
      throw reason;
    }
  }

  return {
    ask: <R>(
      question: unknown,
      { signal, milliseconds = Number.POSITIVE_INFINITY }: Parameters<WorkerPool['ask']>[1],
    ) =>
      slots.run(async () => {
        const worker = await take(signal);
        worker.ref();
        const answer = await limited(
          (abort) => {
            const heard = nextMessage(worker, abort);
            worker.postMessage(question);
            return heard;
          },
          milliseconds,
          signal,
        ).catch(async (reason: unknown) => {
          await drop(worker);
          throw reason;
        });
        worker.unref();
        if (all.has(worker)) idle.push(worker);
        if ('error' in answer) throw new ThrownInside(answer.error);
        return (answer as { readonly value: R }).value;
      }, signal),
    close: async () => {
      await Promise.all([...all].map(drop));
    },
  };
}

function nextMessage(worker: Worker, signal: AbortSignal): Promise<FromWorker> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      signal.removeEventListener('abort', onAbort);
      act();
    };
    const onAbort = () => settle(() => reject(signal.reason));
    const onMessage = (message: FromWorker) => settle(() => resolve(message));
    const onError = (error: unknown) => settle(() => reject(error));
    const onExit = (code: number) => onError(new Error(`a worker thread ended with code ${code}`));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    worker.on('message', onMessage).on('error', onError).on('exit', onExit);
  });
}

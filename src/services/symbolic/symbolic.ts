/** Algebra by the Compute Engine, which is optional: the operations of a tool. */
import { createRequire } from 'node:module';
import { ConfigError } from '../../errors.ts';
import { startWorker } from '../../lib/worker.ts';
import { workerPool } from '../../lib/worker-pool.ts';
import type { Computation } from './computation.ts';

/** Computes mathematical expressions on threads that can be stopped. */
export interface SymbolicMaths {
  /** As text. Rejects, in words for the model, where there is no result. */
  compute(question: Computation, signal?: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/** How long a question may take, and on how many threads questions are computed. */
export interface SymbolicOptions {
  /** Time limit of one question, once the thread has started. */
  readonly milliseconds?: number;
  readonly threads?: number;
}

/** Longer than any answer of a competition; time grows fast with length. */
const LONGEST = 400;
const PACKAGE = '@cortex-js/compute-engine';

/** Throws a ConfigError that says what to install if the engine is missing. Threads start when they are needed. */
export function openSymbolicMaths({ milliseconds = 5000, threads = 1 }: SymbolicOptions = {}): SymbolicMaths {
  try {
    createRequire(import.meta.url).resolve(PACKAGE);
  } catch (cause) {
    throw new ConfigError(
      `symbolic mathematics needs ${PACKAGE}, which is not installed: npm install ${PACKAGE}@0.140`,
      { cause },
    );
  }
  const pool = workerPool(() => startWorker('./symbolic-worker', import.meta.url), threads);
  return {
    compute: (question, signal) => {
      if (question.expression.length > LONGEST) {
        throw new Error(`the expression has ${question.expression.length} characters; at most ${LONGEST}`);
      }
      return pool.ask<string>(question, { signal, milliseconds });
    },
    close: () => pool.close(),
  };
}

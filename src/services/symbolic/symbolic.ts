/** Algebra by the Compute Engine, which is optional: equality of expressions with letters, and a tool's operations. */
import { createRequire } from 'node:module';
import { ConfigError } from '../../errors.ts';
import { isSameExpression } from '../../lib/answers.ts';
import { TimeLimitReached } from '../../lib/time-limit.ts';
import { startWorker } from '../../lib/worker.ts';
import { ThrownInside, workerPool } from '../../lib/worker-pool.ts';

export const OPERATIONS = [
  'simplify',
  'expand',
  'factor',
  'evaluate',
  'approximate',
  'differentiate',
  'integrate',
  'solve',
] as const;

export interface Computation {
  readonly kind: 'compute';
  readonly operation: (typeof OPERATIONS)[number];
  /** LaTeX, or as one types it: `2*x^2 + sin(x)`. An equation for `solve`. */
  readonly expression: string;
  readonly variable: string;
  /** Of an integral. */
  readonly from?: string;
  readonly to?: string;
}

export type Question =
  | Computation
  | { readonly kind: 'same'; readonly answer: string; readonly truth: string };

export interface SymbolicMaths {
  /** Equal as `isSameExpression` says, or by algebra: `2x+x` is `3x`. What cannot be shown in time is not equal. */
  isSame(answer: string, truth: string, signal?: AbortSignal): Promise<boolean>;
  /** As text. Rejects, in words for the model, where there is no result. */
  compute(question: Omit<Computation, 'kind'>, signal?: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

export interface SymbolicOptions {
  /** Of one question, once the thread has started. */
  readonly milliseconds?: number;
  readonly threads?: number;
}

/** Longer than any answer of a competition; time grows fast with length. */
const LONGEST = 400;
const PACKAGE = '@cortex-js/compute-engine';

/** Throws a ConfigError, with what to install, where the engine is not there. Threads start when they are needed. */
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
    isSame: async (answer, truth, signal) => {
      if (isSameExpression(answer, truth)) return true;
      if (answer.trim() === '' || Math.max(answer.length, truth.length) > LONGEST) return false;
      const question: Question = { kind: 'same', answer, truth };
      return pool.ask<boolean>(question, { signal, milliseconds }).catch((reason: unknown) => {
        if (reason instanceof ThrownInside || reason instanceof TimeLimitReached) return false;
        throw reason;
      });
    },
    compute: (question, signal) => {
      if (question.expression.length > LONGEST) {
        throw new Error(`the expression has ${question.expression.length} characters; at most ${LONGEST}`);
      }
      return pool.ask<string>({ ...question, kind: 'compute' } satisfies Question, { signal, milliseconds });
    },
    close: () => pool.close(),
  };
}

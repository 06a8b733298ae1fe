/** What a trajectory's tools have opened: once each, at the first call, and closed once, whatever happens. */

import { ToolError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import type { Tool, ToolContext } from './tool.ts';

export interface ToolStatesOptions {
  readonly context: Omit<ToolContext, 'state' | 'signal'>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

export interface Closed {
  readonly tool: string;
  readonly score?: number;
  /** What went wrong in `score` or `close`. */
  readonly error?: unknown;
}

export class ToolStates {
  readonly #opening = new Map<Tool, Promise<unknown>>();
  readonly #options: ToolStatesOptions;

  constructor(options: ToolStatesOptions) {
    this.#options = options;
  }

  /** The tool's context; rejects with ToolError when it cannot be opened in time. */
  async contextOf(tool: Tool): Promise<ToolContext<unknown>> {
    const { context, signal, clock, timeoutMs } = this.#options;
    const opening = this.#opening.get(tool) ?? (async () => tool.open({ ...context, signal }))();
    this.#opening.set(tool, opening);
    try {
      const state = await withTimeLimit(() => opening, { milliseconds: timeoutMs, clock, signal });
      return { ...context, signal, state };
    } catch (cause) {
      signal.throwIfAborted();
      const why = messageOf(cause);
      throw new ToolError(`tool '${tool.name}' could not be opened: ${why}`, { cause });
    }
  }

  /** Waits for each within the time limit; one that opens later than that is still closed, unwaited for. */
  closeAll({ score }: { readonly score: boolean }): Promise<readonly Closed[]> {
    const { clock, timeoutMs } = this.#options;
    const opened = [...this.#opening];
    this.#opening.clear();
    return Promise.all(
      opened.map(async ([tool, opening]): Promise<Closed> => {
        try {
          const value = await withTimeLimit((signal) => this.#close(tool, opening, score, signal), {
            milliseconds: timeoutMs,
            clock,
          });
          return { tool: tool.name, ...(value === undefined ? {} : { score: value }) };
        } catch (error) {
          return { tool: tool.name, error };
        }
      }),
    );
  }

  async #close(tool: Tool, opening: Promise<unknown>, score: boolean, signal: AbortSignal) {
    let state: unknown;
    try {
      state = await opening;
    } catch {
      return undefined; // never opened, and told as such
    }
    const context = { ...this.#options.context, signal, state };
    try {
      return score ? await tool.score?.(context) : undefined;
    } finally {
      await tool.close(context);
    }
  }
}

/** What a trajectory's tools have opened: once each, at the first call, and closed once, whatever happens. */

import { RewardError, ToolError } from '../errors.ts';
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
  /** Why there is no score: `score` threw, or took too long. */
  readonly scoreError?: RewardError;
  /** What went wrong in `close`. */
  readonly error?: unknown;
}

export class ToolStates {
  readonly #opening = new Map<Tool, Promise<unknown>>();
  readonly #opened = new Set<Tool>();
  readonly #options: ToolStatesOptions;

  constructor(options: ToolStatesOptions) {
    this.#options = options;
  }

  /** The tool's context; rejects with ToolError when it cannot be opened in time. */
  async contextOf(tool: Tool): Promise<ToolContext<unknown>> {
    const { context, signal, clock, timeoutMs } = this.#options;
    const opening = this.#opening.get(tool) ?? this.#open(tool);
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

  async #open(tool: Tool): Promise<unknown> {
    const { context, signal } = this.#options;
    const state = await tool.open({ ...context, signal });
    this.#opened.add(tool);
    return state;
  }

  /** Waits for each within the time limit; one that opens later than that is still closed, unwaited for. */
  closeAll({ score }: { readonly score: boolean }): Promise<readonly Closed[]> {
    const opened = [...this.#opening];
    this.#opening.clear();
    return Promise.all(opened.map(([tool, opening]) => this.#close(tool, opening, score)));
  }

  async #close(tool: Tool, opening: Promise<unknown>, isScored: boolean): Promise<Closed> {
    const scored = isScored && this.#opened.has(tool) ? await this.#score(tool, opening) : {};
    try {
      await this.#withState(opening, (context) => tool.close(context));
      return { tool: tool.name, ...scored };
    } catch (error) {
      return { tool: tool.name, ...scored, error };
    }
  }

  async #score(tool: Tool, opening: Promise<unknown>): Promise<Pick<Closed, 'score' | 'scoreError'>> {
    try {
      const score = await this.#withState(opening, (context) => tool.score?.(context));
      return score === undefined ? {} : { score };
    } catch (cause) {
      const message = `score() of the tool '${tool.name}' failed: ${messageOf(cause)}`;
      return { scoreError: new RewardError(message, { cause }) };
    }
  }

  /** Does nothing for a tool that could not be opened: the trajectory has ended with that. */
  #withState<R>(
    opening: Promise<unknown>,
    work: (context: ToolContext<unknown>) => R | Promise<R>,
  ): Promise<R | undefined> {
    const { context, clock, timeoutMs } = this.#options;
    return withTimeLimit(
      (signal) =>
        opening.then(
          (state) => work({ ...context, signal, state }),
          () => undefined,
        ),
      { milliseconds: timeoutMs, clock },
    );
  }
}

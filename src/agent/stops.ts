/** When a tool loop ends before the model has nothing more to ask: conditions, checked after replies and tools. */
import type { ChatReply } from '../chat/chat.ts';
import type { TrajectoryReward } from '../reward/reward.ts';
import type { Task, ToolRun } from '../types.ts';
import type { AgentContext } from './agent.ts';

/** What a stop condition sees of a loop between two replies. */
export interface LoopProgress<T = Task> {
  readonly context: AgentContext<T>;
  /** All replies so far, the last one last. */
  readonly replies: readonly ChatReply[];
  /** Runs of the last reply's calls; undefined before they have been run. */
  readonly runs: readonly ToolRun[] | undefined;
}

/** A named stop condition; `trajectory.extra.stoppedBy` has the name of the one that was met. */
export interface Stop<T = Task> {
  readonly name: string;
  isMet(progress: LoopProgress<T>): boolean | Promise<boolean>;
}

/** Stops when a tool ran without a problem: any tool, or the named one. */
export const toolSucceeded = (name?: string): Stop<never> => ({
  name: 'tool succeeded',
  isMet: ({ runs = [] }) =>
    runs.some(({ call, problem }) => !problem && (name === undefined || call.name === name)),
});

/** Stops when the last reply contains a text, such as `Final Answer`. */
export const replySays = (text: string | RegExp): Stop<never> => ({
  name: `reply says ${text}`,
  isMet: ({ replies }) => {
    const said = replies.at(-1)?.text ?? '';
    return typeof text === 'string' ? said.includes(text) : text.test(said);
  },
});

/** Stops when the last `times` replies are the same, word for word. */
export const repeatedReplies = (times = 2): Stop<never> => ({
  name: 'repeated replies',
  isMet: ({ replies }) => {
    const last = replies.slice(-times);
    return last.length === times && last.every(({ text }) => text === last[0]!.text);
  },
});

/** Stops when `times` calls could not be read or run, over the whole loop. */
export const failedToolCalls = (times = 3): Stop<never> => ({
  name: 'failed tool calls',
  isMet: ({ context, runs }) => {
    if (!runs) return false;
    const { turns } = context.trajectory();
    const failed = turns.flatMap(({ toolRuns, problems }) => [
      ...problems,
      ...toolRuns.flatMap(({ problem }) => problem ?? []),
    ]);
    return failed.length >= times;
  },
});

/** Stops once the given reward, computed after each reply, reaches `least`. */
export const isCorrect = <T>(by: TrajectoryReward<T>, least = 1): Stop<T> => ({
  name: `${by.name} is ${least}`,
  isMet: async ({ context, runs }) => {
    if (runs) return false;
    const { task, signal } = context;
    const trajectory = context.trajectory();
    const value = await by.score({ task, trajectory, solution: trajectory.text, signal });
    return (typeof value === 'number' ? value : value.score) >= least;
  },
});

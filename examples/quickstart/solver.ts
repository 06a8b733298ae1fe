import { type Agent, type Limits, reward, type Tool, tool, toolLoop } from 'rollcall';
import type { TrajectoryReward } from 'rollcall/rewards';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** What the solver and its reward need of a task; a problem also says where it is from. */
export type Question = { readonly question: string; readonly answer: number };

export const calculator: Tool = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: z.object({ expression: z.string() }),
  pure: true,
  run: ({ expression }) => {
    const result = calculate(expression);
    if (result === undefined) throw new Error('not one operation on two numbers');
    return result;
  },
});

/** The agent of the quick start: the default loop around one tool. */
export const createSolver = (tools: readonly Tool[] = [calculator]): Agent<Question> =>
  toolLoop<Question>({ name: 'solver', prompt: ({ question }) => question, tools });

/** 1 for the right number, else 0; how it was found does not matter. */
export const correct: TrajectoryReward<Question> = reward<Question>('correct', ({ task, trajectory }) => {
  const last = /The answer is (-?\d+(?:\.\d+)?)\.?\s*$/.exec(trajectory.text)?.[1];
  return last !== undefined && Number(last) === task.answer ? 1 : 0;
});

/** Three calls solve the longest problem; a trajectory has about 125 tokens, prompt included. */
export const LIMITS: Partial<Limits> = {
  turns: 6,
  tokensPerReply: 48,
  tokensPerTrajectory: 192,
  contextTokens: 256,
  callsPerTurn: 2,
  tokensPerToolResult: 24,
};

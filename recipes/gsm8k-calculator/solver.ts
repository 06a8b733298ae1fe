/** The agent, its tool and its rewards: what a trajectory is and what it is worth. */
import { type Agent, reward, type Tool, type Trajectory, tool, toolLoop } from 'rollcall';
import { calculatorTool, type ToolRun } from 'rollcall/tools';
import type { Problem } from './problems.ts';

export const SYSTEM =
  'You solve grade-school maths problems step by step. Use the calculator for every calculation. ' +
  'End with "The answer is N.", where N is a number.';

/** The control's: the same task without a tool. */
const IN_WORDS =
  'You solve grade-school maths problems step by step. End with "The answer is N.", where N is a number.';

/** For solutions that become demonstrations: equations that the calculator can read, and few words around them. */
const IN_EQUATIONS =
  'You solve grade-school maths problems step by step, in short plain sentences without LaTeX and without lists. ' +
  'Write each calculation with numbers alone, as in 48 / 2 = 24. End with "The answer is N.", where N is a number.';

export const calculator = calculatorTool();

/** Looks the same to the model, but every result is 0: shows how much the answers rely on the tool. */
export const brokenCalculator: Tool = tool({
  name: calculator.name,
  description: calculator.schema.function.description,
  input: calculator.schema.function.parameters,
  run: () => '0',
});

export function solver(tools: readonly Tool[] = [calculator]): Agent<Problem> {
  const system = tools.length > 0 ? SYSTEM : IN_WORDS;
  return toolLoop<Problem>({ system, prompt: ({ question }) => question, tools });
}

/** Solves a problem without a tool, in equations that can become calls. */
export const equationWriter: Agent<Problem> = toolLoop<Problem>({
  system: IN_EQUATIONS,
  prompt: ({ question }) => question,
  tools: [],
});

/** The number in "The answer is N.", or the last number where the sentence is missing. */
export function answerOf(text: string): number | undefined {
  const number = '-?\\$?\\d[\\d,]*(?:\\.\\d+)?';
  const said = new RegExp(`answer is:?\\s*(${number})`, 'i').exec(text)?.[1];
  const found = said ?? text.match(new RegExp(number, 'g'))?.at(-1);
  return found === undefined ? undefined : Number(found.replace(/[$,]/g, ''));
}

const isNear = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b));

export const toolRuns = (trajectory: Trajectory<Problem>): ToolRun[] =>
  trajectory.turns.flatMap((turn) => turn.toolRuns);

/** Calls that the calculator could evaluate, and all calls, unreadable ones included. */
export function countCalls(trajectory: Trajectory<Problem>): { valid: number; all: number } {
  const unread = trajectory.turns.flatMap((turn) =>
    turn.problems.filter((one) => one.kind === 'malformed-call'),
  );
  const runs = toolRuns(trajectory);
  return { valid: runs.filter((run) => !run.problem).length, all: runs.length + unread.length };
}

/** Whether the final answer is the result of one of the trajectory's own calls. */
export function isFromCall(trajectory: Trajectory<Problem>): boolean {
  const answer = answerOf(trajectory.text);
  return toolRuns(trajectory).some(
    ({ problem, result }) => !problem && answer !== undefined && isNear(Number(result), answer),
  );
}

export function isRight(task: Problem, trajectory: Trajectory<Problem>): boolean {
  const answer = answerOf(trajectory.text);
  return answer !== undefined && isNear(answer, task.answer);
}

export const correct = reward<Problem>('correct', ({ task, trajectory }) =>
  isRight(task, trajectory) ? 1 : 0,
);

/** Logged, not trained on: whether a right answer is the result of one of the trajectory's own calls. */
export const fromCall = reward<Problem>(
  'from call',
  ({ task, trajectory }) => (isRight(task, trajectory) && isFromCall(trajectory) ? 1 : 0),
  { weight: 0 },
);

/** At most 0.1: the share of calls that the calculator could evaluate; nothing without a call. */
export const validCalls = reward<Problem>(
  'valid calls',
  ({ trajectory }) => {
    const { valid, all } = countCalls(trajectory);
    return all === 0 ? 0 : valid / all;
  },
  { weight: 0.1 },
);

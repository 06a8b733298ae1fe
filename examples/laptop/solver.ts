/** The agent, its tool, its reward and what it is shown before it is rewarded. */
import { type Agent, arrayDataset, type Dataset, reward, toolLoop } from 'rollcall';
import type { Stop } from 'rollcall/agents';
import type { DemonstrationRow } from 'rollcall/options';
import { calculatorTool } from 'rollcall/tools';
import type { Problem } from './problems.ts';
import { TEMPLATE } from './template.ts';

/** Short, because each token costs a laptop time. */
const SYSTEM = 'Call the calculator. Then say: The answer is N.';

export const CHAT = { toolFormat: 'text', template: TEMPLATE } as const;
export const LIMITS = { turns: 3, tokensPerReply: 40, tokensPerTrajectory: 120, contextTokens: 512 };

const calculator = calculatorTool();

export function solver(tools = [calculator]): Agent<Problem> {
  return toolLoop<Problem>({ system: SYSTEM, prompt: ({ question }) => question, tools });
}

/** Also when a call could not be run. */
const afterTools: Stop<Problem> = { name: 'after tools', isMet: ({ runs }) => runs !== undefined };

/** For training: an attempt ends with its first call, which decides. What is said of the result is known by then. */
export function caller(): Agent<Problem> {
  return toolLoop<Problem>({
    system: SYSTEM,
    prompt: ({ question }) => question,
    tools: [calculator],
    stopWhen: [afterTools],
  });
}

/** The number in "The answer is N." */
export function answerOf(text: string): number | undefined {
  const found = /answer is:?\s*\$?(-?\d[\d,]*(?:\.\d+)?)/i.exec(text)?.[1];
  return found === undefined ? undefined : Number(found.replaceAll(',', ''));
}

export const correct = reward<Problem>('correct', ({ task, trajectory }) => {
  return isRight(answerOf(trajectory.text), task);
});

/** For `caller`: whether the calculator's last result is the answer. */
export const correctCall = reward<Problem>('correct call', ({ task, trajectory }) => {
  const run = trajectory.turns.at(-1)?.toolRuns.at(-1);
  return isRight(run && !run.problem ? Number(run.result) : undefined, task);
});

function isRight(answer: number | undefined, task: Problem): number {
  return answer !== undefined && Math.abs(answer - task.answer) <= 0.01 ? 1 : 0;
}

/** A few hundred dialogues in which the problem's expression is asked. */
export async function demonstrations(
  tasks: Dataset<Problem>,
  count: number,
): Promise<Dataset<DemonstrationRow>> {
  const rows: DemonstrationRow[] = [];
  for await (const { row } of tasks.rows()) {
    if (rows.length === count) break;
    const answer = String(Number(row.answer.toPrecision(10)));
    rows.push({
      messages: [
        { role: 'system', content: SYSTEM },
        { role: 'user', content: row.question },
        {
          role: 'assistant',
          content: '',
          toolCalls: [{ id: 'call_0', name: 'calculator', arguments: { expression: row.expression } }],
        },
        { role: 'tool', toolCallId: 'call_0', name: 'calculator', content: answer },
        { role: 'assistant', content: `The answer is ${answer}.` },
      ],
      tools: [calculator.schema],
    });
  }
  return arrayDataset(rows, 'demonstrations');
}

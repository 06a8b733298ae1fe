import { tool, toolLoop } from 'rollcall';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: z.object({ expression: z.string() }),
  run: ({ expression }) => calculate(expression),
});

/** The usual loop: reply, run the calls, repeat until a reply has none. */
export const solver = toolLoop<Problem>({ prompt: ({ question }) => question, tools: [calculator] });

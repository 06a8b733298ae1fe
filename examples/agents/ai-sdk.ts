import { generateText, stepCountIs, tool } from 'ai';
import { agent } from 'rollcall';
import { languageModel } from 'rollcall/ai-sdk';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const calculator = tool({
  description: 'One operation on two numbers.',
  inputSchema: z.object({ expression: z.string() }),
  execute: ({ expression }) => calculate(expression),
});

/** An agent of the AI SDK as it would run in production; only its model is the one being trained. */
export const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  await generateText({
    model: languageModel(model),
    tools: { calculator },
    prompt: task.question,
    stopWhen: stepCountIs(limits.turns),
    abortSignal: signal,
  });
});

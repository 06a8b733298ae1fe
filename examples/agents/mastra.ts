import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { agent } from 'rollcall';
import { languageModel } from 'rollcall/ai-sdk';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const calculator = createTool({
  id: 'calculator',
  description: 'One operation on two numbers.',
  inputSchema: z.object({ expression: z.string() }),
  execute: async ({ expression }) => calculate(expression),
});

/** A Mastra agent as it would run in production; only its model is the one being trained. */
export const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  const mathematician = new Agent({
    id: 'mathematician',
    name: 'mathematician',
    instructions: 'Use the calculator.',
    model: languageModel(model),
    tools: { calculator },
  });
  await mathematician.generate(task.question, { maxSteps: limits.turns, abortSignal: signal });
});

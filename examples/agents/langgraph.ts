import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { createAgent } from 'langchain';
import { agent } from 'rollcall';
import { chatModel, recursionLimit } from 'rollcall/langchain';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const calculator = tool(({ expression }) => calculate(expression), {
  name: 'calculator',
  description: 'One operation on two numbers.',
  schema: z.object({ expression: z.string() }),
});

/** A LangGraph agent as it would run in production; only its model is the one being trained. */
export const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  const graph = createAgent({ model: chatModel(model), tools: [calculator] });
  const messages = [new HumanMessage(task.question)];
  await graph.invoke({ messages }, { recursionLimit: recursionLimit(limits), signal });
});

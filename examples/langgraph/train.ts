import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { createAgent } from 'langchain';
import { agent, type TrainOptions } from 'rollcall';
import { chatModel, recursionLimit } from 'rollcall/langchain';
import { z } from 'zod';
import { options as calculatorExample } from '../calculator/train.ts';

type Problem = { question: string; answer: number };

/** One operation on two numbers. What it throws, the model reads. */
function calculate(expression: string): string {
  const [, a, sign, b] = /^(-?[\d.]+)([-+*/])(-?[\d.]+)$/.exec(expression.replaceAll(' ', '')) ?? [];
  const [x, y] = [Number(a), Number(b)];
  const result = { '+': x + y, '-': x - y, '*': x * y, '/': x / y }[sign ?? ''];
  if (result === undefined || !Number.isFinite(result)) throw new Error('not one operation on two numbers');
  return String(Math.round(100 * result) / 100);
}

const calculator = tool(({ expression }) => calculate(expression), {
  name: 'calculator',
  description: 'One operation on two numbers.',
  schema: z.object({ expression: z.string() }),
});

// A LangGraph agent as it would run in production; only its model is the one being trained.
const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  const graph = createAgent({ model: chatModel(model), tools: [calculator] });
  const messages = [new HumanMessage(task.question)];
  await graph.invoke({ messages }, { recursionLimit: recursionLimit(limits), signal });
});

/** Run it: `npx rollcall train examples/langgraph/train.ts`, after `npm start` has made the model. */
export const options: TrainOptions<Problem> = {
  ...calculatorExample,
  agent: solver,
  runDir: 'runs/langgraph',
};

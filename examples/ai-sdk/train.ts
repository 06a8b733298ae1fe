import { generateText, stepCountIs, tool } from 'ai';
import { agent, type TrainOptions } from 'rollcall';
import { languageModel } from 'rollcall/ai-sdk';
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

const calculator = tool({
  description: 'One operation on two numbers.',
  inputSchema: z.object({ expression: z.string() }),
  execute: ({ expression }) => calculate(expression),
});

// An agent of the AI SDK as it would run in production; only its model is the one being trained.
const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  await generateText({
    model: languageModel(model),
    tools: { calculator },
    prompt: task.question,
    stopWhen: stepCountIs(limits.turns),
    abortSignal: signal,
  });
});

/** Run it: `npx rollcall train examples/ai-sdk/train.ts`, after `npm start` has made the model. */
export const options: TrainOptions<Problem> = { ...calculatorExample, agent: solver, runDir: 'runs/ai-sdk' };

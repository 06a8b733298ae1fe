import { Agent, Runner, tool } from '@openai/agents-core'; // or from '@openai/agents', which exports the same
import { agent } from 'rollcall';
import { modelProvider } from 'rollcall/openai-agents';
import { z } from 'zod';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  parameters: z.object({ expression: z.string() }),
  execute: ({ expression }) => calculate(expression),
  errorFunction: (_, error) => String(error), // by default the model is not told what was wrong
});

const mathematician = new Agent({ name: 'mathematician', tools: [calculator] });

/** An agent of OpenAI Agents as it would run in production; only its model is the one being trained. */
export const solver = agent<Problem>(async ({ task, model, limits, signal }) => {
  const runner = new Runner({ modelProvider: modelProvider(model), tracingDisabled: true });
  await runner.run(mathematician, task.question, { maxTurns: limits.turns, signal });
});

import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { createAgent } from 'langchain';
import { agent, type Task } from 'rollcall';
import { chatModel, recursionLimit } from 'rollcall/langchain';
import { evaluateExpression } from 'rollcall/tools';
import { z } from 'zod';

const calculate = tool(({ expression }) => String(evaluateExpression(expression)), {
  name: 'calculate',
  description: 'Evaluates an arithmetic expression.',
  schema: z.object({ expression: z.string() }),
});

/** A graph as it would run in production; only its model is the one being trained. */
export const mathExpression = agent<Task>(async ({ task, model, limits, signal }) => {
  const graph = createAgent({ model: chatModel(model), tools: [calculate] });
  const [{ content }] = task.prompt as [{ content: string }];
  await graph.invoke(
    { messages: [new HumanMessage(content)] },
    { recursionLimit: recursionLimit(limits), signal },
  );
});

import OpenAI from 'openai';
import { agent } from 'rollcall';
import { calculate } from './calculate.ts';

/** A row of tasks.jsonl. */
export type Problem = { question: string; answer: number };

const tools: OpenAI.ChatCompletionTool[] = [
  {
    type: 'function',
    function: {
      name: 'calculator',
      description: 'One operation on two numbers.',
      parameters: {
        type: 'object',
        properties: { expression: { type: 'string' } },
        required: ['expression'],
      },
    },
  },
];

/** An agent around OpenAI's own client, which knows the model by a base URL and a key. */
export const solver = agent<Problem>(async ({ task, endpoint, signal }) => {
  const { openai: baseURL, apiKey } = await endpoint();
  const client = new OpenAI({ baseURL, apiKey });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: task.question }];
  for (;;) {
    const { choices } = await client.chat.completions.create(
      { model: 'policy', messages, tools },
      { signal },
    );
    const { message } = choices[0]!;
    messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      if (call.type === 'function')
        messages.push({ role: 'tool', tool_call_id: call.id, content: answer(call) });
    }
  }
});

function answer({ function: { arguments: text } }: OpenAI.ChatCompletionMessageFunctionToolCall): string {
  try {
    return calculate(String(JSON.parse(text).expression));
  } catch (error) {
    return String(error);
  }
}

/** One agent, written with each official client: a system prompt, a question, and a loop that runs the calls. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { Tool } from 'rollcall';
import type { Endpoint } from 'rollcall/agents';

/** What the agent says first, and the tools that it runs. */
export interface Work {
  readonly system?: string;
  readonly question: string;
  readonly tools: readonly Tool[];
}

export type Client = (
  endpoint: Pick<Endpoint, 'openai' | 'anthropic' | 'apiKey'> & Partial<Endpoint>,
  work: Work,
) => Promise<string>;

type Run = (name: string, input: string) => Promise<string>;

function runnerOf(tools: readonly Tool[]): Run {
  return async (name, input) => {
    const tool = tools.find((one) => one.name === name)!;
    const { signal } = new AbortController();
    const result = await tool.run(JSON.parse(input) as never, { signal } as never);
    return typeof result === 'string' ? result : JSON.stringify(result);
  };
}

const openaiOf = ({ openai, apiKey, fetch }: Parameters<Client>[0]) =>
  new OpenAI({ baseURL: openai, apiKey, maxRetries: 0, ...(fetch ? { fetch } : {}) });

const chat =
  (stream: boolean): Client =>
  async (endpoint, { system, question, tools }) => {
    const client = openaiOf(endpoint);
    const run = runnerOf(tools);
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      { role: 'user', content: question },
    ];
    const body = {
      model: 'policy',
      messages,
      tools: tools.map(({ schema }) => ({
        type: 'function' as const,
        function: { ...schema.function, parameters: { ...schema.function.parameters } },
      })),
    };
    for (;;) {
      const { choices } = stream
        ? await client.chat.completions.stream(body).finalChatCompletion()
        : await client.chat.completions.create(body);
      const { message } = choices[0]!;
      messages.push(message);
      if (!message.tool_calls?.length) return message.content ?? '';
      for (const call of message.tool_calls) {
        if (call.type !== 'function') throw new Error(call.type);
        const content = await run(call.function.name, call.function.arguments);
        messages.push({ role: 'tool', tool_call_id: call.id, content });
      }
    }
  };

const responses =
  (stream: boolean, byId: boolean): Client =>
  async (endpoint, { system, question, tools }) => {
    const client = openaiOf(endpoint);
    const run = runnerOf(tools);
    let input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: question }];
    let previous: string | undefined;
    for (;;) {
      const body = {
        model: 'policy',
        ...(system === undefined ? {} : { instructions: system }),
        input,
        ...(previous === undefined ? {} : { previous_response_id: previous }),
        tools: tools.map(({ schema: { function: tool } }) => ({
          type: 'function' as const,
          name: tool.name,
          description: tool.description,
          parameters: { ...tool.parameters },
          strict: null as unknown as boolean,
        })),
      };
      const response = stream
        ? await client.responses.stream(body).finalResponse()
        : await client.responses.create(body);
      const calls = response.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
      if (calls.length === 0) return response.output_text;
      const results = await Promise.all(
        calls.map(async (call) => ({
          type: 'function_call_output' as const,
          call_id: call.call_id,
          output: await run(call.name, call.arguments),
        })),
      );
      input = byId ? results : [...input, ...response.output.map(asInput), ...results];
      if (byId) previous = response.id;
    }
  };

/** What `parse` of the client adds to an item is not sent back. */
function asInput(item: OpenAI.Responses.ResponseOutputItem): OpenAI.Responses.ResponseInputItem {
  const { parsed_arguments: _, ...rest } = item as typeof item & { parsed_arguments?: unknown };
  return rest as OpenAI.Responses.ResponseInputItem;
}

const messages =
  (stream: boolean): Client =>
  async (endpoint, { system, question, tools }) => {
    const { anthropic, apiKey, fetch } = endpoint;
    const client = new Anthropic({ baseURL: anthropic, apiKey, maxRetries: 0, ...(fetch ? { fetch } : {}) });
    const run = runnerOf(tools);
    const dialogue: Anthropic.MessageParam[] = [{ role: 'user', content: question }];
    for (;;) {
      const body = {
        model: 'policy',
        max_tokens: 4096,
        ...(system === undefined ? {} : { system }),
        messages: dialogue,
        tools: tools.map(({ schema: { function: tool } }) => ({
          name: tool.name,
          description: tool.description,
          input_schema: tool.parameters as Anthropic.Tool.InputSchema,
        })),
      };
      const message = stream
        ? await client.messages.stream(body).finalMessage()
        : await client.messages.create(body);
      dialogue.push({ role: 'assistant', content: message.content });
      const calls = message.content.filter((block) => block.type === 'tool_use');
      if (calls.length === 0)
        return message.content.map((block) => ('text' in block ? block.text : '')).join('');
      const results = await Promise.all(
        calls.map(async (call) => ({
          type: 'tool_result' as const,
          tool_use_id: call.id,
          content: await run(call.name, JSON.stringify(call.input)),
        })),
      );
      dialogue.push({ role: 'user', content: results });
    }
  };

/** Every client that is tested, by name. */
export const CLIENTS: Readonly<Record<string, Client>> = {
  'chat completions': chat(false),
  'chat completions, streamed': chat(true),
  responses: responses(false, false),
  'responses, streamed': responses(true, false),
  'responses by previous_response_id': responses(false, true),
  'responses by previous_response_id, streamed': responses(true, true),
  messages: messages(false),
  'messages, streamed': messages(true),
};

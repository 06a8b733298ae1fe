import type OpenAI from 'openai';
import type { Endpoint } from 'rollcall/agents';
import { describe, expect, test } from 'vitest';
import type { EndpointRules } from '../src/agent/endpoint.ts';
import { anthropicOf, ask, GO, openaiOf, play } from './endpoint-play.ts';

/** An attempt that is completed, in so many segments. */
async function completed(
  run: (endpoint: Endpoint) => Promise<unknown>,
  replies: readonly string[],
  { segments = 1, ...rules }: Partial<EndpointRules> & { segments?: number } = {},
) {
  const { trajectory } = await play(run, ({ turn }) => replies[turn]!, { rules });
  expect(trajectory.end).toEqual({ kind: 'completed' });
  expect(trajectory.segments).toHaveLength(segments);
  return trajectory;
}

const call = (name: string, input: object) =>
  `<tool_call>${JSON.stringify({ name, arguments: input })}</tool_call>`;
const [add, look] = [call('add', { a: 1 }), call('look', { at: 'x' })];

const parameters = { type: 'object' as const, properties: {} };
const tools = ['add', 'look'].map((name) => ({
  type: 'function' as const,
  function: { name, description: 'd', parameters },
}));
const askWithTools = (endpoint: Endpoint, body: object) => ask(endpoint, { tools, ...body });

const namesIn = ({ choices }: OpenAI.ChatCompletion) =>
  choices[0]!.message.tool_calls?.map((one) => (one.type === 'function' ? one.function.name : one.type));

describe('tool_choice', () => {
  test('required: words are answered until there is a call, and every reply is trained', async () => {
    const trajectory = await completed(
      async (endpoint) => {
        const { choices } = await askWithTools(endpoint, { tool_choice: 'required' });
        expect(choices[0]!.message).toMatchObject({
          content: 'Well.\n',
          tool_calls: [{ id: 'call_0_turn_2' }],
        });
      },
      ['Well.', add],
    );
    expect(trajectory.messages.map(({ role, content }) => [role, content]).slice(2, 3)).toEqual([
      ['user', 'Call one of these tools: add, look now.'],
    ]);
    expect(trajectory.turns.map(({ untrained }) => untrained)).toEqual([undefined, undefined]);
    expect(trajectory.endpoint!.ignoredFields).toEqual({});
  });

  test('a named tool: calls of others are answered, and a model that does not obey is passed on and counted', async () => {
    const named = { type: 'function', function: { name: 'look' } };
    const obeyed = await completed(
      async (endpoint) =>
        expect(namesIn(await askWithTools(endpoint, { tool_choice: named }))).toEqual(['look']),
      [add, look],
    );
    expect(obeyed.turns[0]!.toolRuns[0]!.result).toBe("Not run: 'look' must be called now.");
    const stubborn = await completed(
      async (endpoint) => {
        const { content, stop_reason } = await anthropicOf(endpoint).messages.create({
          model: 'policy',
          max_tokens: 100,
          messages: [GO],
          tools: [{ name: 'look', input_schema: parameters }],
          tool_choice: { type: 'tool', name: 'look' },
        });
        expect([content, stop_reason]).toMatchObject([[{ text: 'No.\nNo.\nNever.' }], 'end_turn']);
      },
      ['No.', 'No.', 'Never.'],
    );
    expect(stubborn.endpoint!.ignoredFields).toEqual({ tool_choice: 1 });
  });
});

test('parallel_tool_calls: false passes on the first call; the model reads why the others were not run', async () => {
  const loop = async (endpoint: Endpoint, stream: boolean) => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [GO];
    const body = { model: 'policy', messages, tools, parallel_tool_calls: false };
    for (let turn = 0; turn < 2; turn++) {
      const reply = stream
        ? await openaiOf(endpoint).chat.completions.stream(body).finalChatCompletion()
        : await askWithTools(endpoint, body);
      const { message } = reply.choices[0]!;
      messages.push(message);
      expect(namesIn(reply)).toEqual(turn === 0 ? ['add'] : undefined);
      for (const { id } of message.tool_calls ?? [])
        messages.push({ role: 'tool', tool_call_id: id, content: '1' });
    }
  };
  const [whole, streamed] = [
    await completed((endpoint) => loop(endpoint, false), [`${add}${look}`, 'Done.']),
    await completed((endpoint) => loop(endpoint, true), [`${add}${look}`, 'Done.'], { calls: 'streamed' }),
  ];
  expect(whole.turns[0]!.toolRuns.map(({ result }) => result)).toEqual([
    '1',
    'Not run: make one call at a time.',
  ]);
  expect(streamed.segments).toEqual(whole.segments);
});

describe('calls in streams', () => {
  const LONG = call('add', { text: 'a long "text"\nof two lines', n: [1, 2.5] });

  test.each(['whole', 'streamed'] as const)(
    '%s: the pieces make the call, in every dialect',
    async (calls) => {
      const pieces: string[][] = [[], [], []];
      await completed(
        async (endpoint) => {
          const chat = openaiOf(endpoint).chat.completions.stream({ model: 'policy', messages: [GO], tools });
          for await (const { choices } of chat)
            pieces[0]!.push(...(choices[0]?.delta.tool_calls ?? []).map((one) => one.function!.arguments!));
          const response = openaiOf(endpoint).responses.stream({
            model: 'policy',
            input: [GO],
            tools: tools.map((tool) => ({ type: 'function', ...tool.function, strict: false })),
          });
          for await (const event of response)
            if (event.type === 'response.function_call_arguments.delta') pieces[1]!.push(event.delta);
          const message = anthropicOf(endpoint).messages.stream({
            model: 'policy',
            max_tokens: 1000,
            messages: [GO],
            tools: tools.map((tool) => ({ name: tool.function.name, input_schema: parameters })),
          });
          for await (const event of message)
            if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
              pieces[2]!.push(event.delta.partial_json);
          const { output } = await response.finalResponse();
          const { content } = await message.finalMessage();
          expect([output[0], content[0]]).toMatchObject([
            { status: 'completed', arguments: pieces[1]!.join('') },
            { input: JSON.parse(pieces[2]!.join('')) },
          ]);
        },
        [LONG, LONG, LONG],
        { calls, segments: 3 }, // three questions
      );
      for (const each of pieces) {
        expect(JSON.parse(each.join(''))).toEqual({ text: 'a long "text"\nof two lines', n: [1, 2.5] });
        expect(each.length > 10).toBe(calls === 'streamed');
      }
    },
  );

  test('a call that breaks off is never JSON; what its client answers gives way to the words of an own loop', async () => {
    const broken = `<tool_call>{"name": "add", "arguments": {"a": 1, "b"</tool_call>`;
    const loop = async (endpoint: Endpoint) => {
      const messages: OpenAI.ChatCompletionMessageParam[] = [GO];
      for (;;) {
        const body = { model: 'policy', messages, tools };
        const { choices } = await openaiOf(endpoint).chat.completions.stream(body).finalChatCompletion();
        const { message } = choices[0]!;
        messages.push(message);
        if (!message.tool_calls) return;
        for (const one of message.tool_calls) {
          if (one.type !== 'function') continue;
          expect(() => JSON.parse(one.function.arguments)).toThrow();
          messages.push({ role: 'tool', tool_call_id: one.id, content: 'I cannot read this.' });
        }
      }
    };
    const whole = await completed(loop, [broken, 'Done.']);
    const streamed = await completed(loop, [broken, 'Done.'], { calls: 'streamed' });
    expect([whole.endpoint!.requests, streamed.endpoint!.requests]).toEqual([1, 2]);
    expect(streamed.segments).toEqual(whole.segments);
  });
});

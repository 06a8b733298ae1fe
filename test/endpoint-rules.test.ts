import { stripVTControlCharacters } from 'node:util';
import OpenAI from 'openai';
import { type AgentContext, tool } from 'rollcall';
import type { Endpoint } from 'rollcall/agents';
import { virtualClock } from 'rollcall/testing';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { obeyReport } from '../src/agent/agent-report.ts';
import { printTrajectory } from '../src/cli/print-trajectory.ts';
import { ask, openaiOf, play, post, tokenizer } from './endpoint-play.ts';

const trainedTokens = (segments: readonly { readonly trained: Uint8Array }[]) =>
  segments.map(({ trained }) => trained.reduce((sum, one) => sum + one, 0));

describe('sampling that the client asks for', () => {
  test("is replaced by the run's and counted", async () => {
    const { trajectory, server } = await play(
      (endpoint) => ask(endpoint, { temperature: 0.2 }),
      () => 'ok',
    );
    expect(server.requests[0]!.sampling.temperature).toBe(1);
    expect(trajectory.endpoint!.forcedSampling).toBe(1);
    expect(trainedTokens(trajectory.segments)).toEqual([3]);
  });

  test('is obeyed and not trained', async () => {
    const { trajectory, server } = await play(
      (endpoint) => ask(endpoint, { temperature: 0.2 }),
      () => 'ok',
      {
        rules: { sampling: 'exclude' },
      },
    );
    expect(server.requests[0]!.sampling.temperature).toBe(0.2);
    expect(trajectory.turns[0]!.untrained).toBe('sampling');
    expect(trainedTokens(trajectory.segments)).toEqual([0]);
  });

  test('is refused in words', async () => {
    await play(
      async (endpoint) => {
        await expect(ask(endpoint, { temperature: 0.2 })).rejects.toThrow(
          "400 temperature is 0.2, and the run's is 1; leave it out (endpoint.sampling is refuse)",
        );
      },
      () => 'ok',
      { rules: { sampling: 'refuse' } },
    );
  });

  test("is obeyed where it is the run's own", async () => {
    const { trajectory } = await play(
      (endpoint) => ask(endpoint, { temperature: 1, top_p: 1 }),
      () => 'ok',
    );
    expect(trajectory.endpoint!.forcedSampling).toBe(0);
  });
});

test('fields without effect are ignored and counted', async () => {
  const { trajectory } = await play(
    (endpoint) =>
      ask(endpoint, {
        prompt_cache_key: 'k',
        reasoning_effort: 'low',
        tool_choice: 'required', // without tools
        top_logprobs: 5,
        logprobs: true,
        response_format: { type: 'json_object' },
        service_tier: 'auto',
        never_heard_of: null,
      }),
    () => 'ok',
  );
  expect(trajectory.end.kind).toBe('completed');
  expect(trajectory.endpoint!.ignoredFields).toEqual({
    prompt_cache_key: 1,
    reasoning_effort: 1,
    tool_choice: 1,
    top_logprobs: 1,
    response_format: 1,
    service_tier: 1,
  });
});

test('n replies, max_tokens, stop and logprobs act', async () => {
  const { trajectory, server } = await play(
    async (endpoint) => {
      const { choices, usage } = await ask(endpoint, { n: 3, max_tokens: 4, stop: 'x', logprobs: true });
      expect(choices.map(({ message, finish_reason }) => [message.content, finish_reason])).toEqual(
        Array.from({ length: 3 }, () => ['long', 'length']),
      );
      expect(choices[0]!.logprobs!.content!.map(({ token }) => token)).toEqual(['l', 'o', 'n', 'g']);
      expect(usage!.completion_tokens).toBe(12);
    },
    () => 'longer than that',
  );
  expect(server.requests.map(({ sampling }) => [sampling.maxTokens, sampling.stopStrings])).toEqual(
    Array.from({ length: 3 }, () => [4, ['x']]),
  );
  expect(trainedTokens(trajectory.segments)).toEqual([4, 4, 4]);
});

describe('history', () => {
  const tools = (names: readonly string[]) =>
    names.map((name) => ({
      type: 'function' as const,
      function: { name, description: 'd', parameters: { type: 'object', properties: {} } },
    }));
  const reordered = [
    {
      function: { parameters: { properties: {}, type: 'object' }, description: 'd', name: 'b' },
      type: 'function',
    },
    ...tools(['a']),
  ];

  test('tools in another order, and keys in another order, continue the segment', async () => {
    const { trajectory } = await play(
      async (endpoint) => {
        const first = await ask(endpoint, { tools: tools(['a', 'b']) });
        const messages = [
          { role: 'user', content: 'go' },
          first.choices[0]!.message,
          { role: 'user', content: 'on' },
        ];
        await ask(endpoint, { messages, tools: reordered });
      },
      () => 'ok',
    );
    expect([trajectory.segments.length, trajectory.turns.length]).toEqual([1, 2]);
  });

  test('other tools, another system prompt and an edited reply begin a segment', async () => {
    const { trajectory } = await play(
      async (endpoint) => {
        const first = await ask(endpoint, { tools: tools(['a']) });
        const go = { role: 'user', content: 'go' };
        const on = { role: 'user', content: 'on' };
        await ask(endpoint, { messages: [go, first.choices[0]!.message, on], tools: tools(['a', 'b']) });
        await ask(endpoint, { messages: [{ role: 'system', content: 'S' }, go], tools: tools(['a']) });
        await ask(endpoint, {
          messages: [go, { role: 'assistant', content: 'no' }, on],
          tools: tools(['a']),
        });
      },
      () => 'ok',
    );
    expect(trajectory.segments).toHaveLength(4);
    expect(trainedTokens(trajectory.segments)).toEqual([3, 3, 3, 3]);
  });

  test('a branch takes the sampled ids as its context, though their text would be encoded otherwise', async () => {
    // The reply is cut in the middle of a character, so its text cannot be encoded back to its ids.
    const odd = { ids: [...tokenizer.encode('é').slice(0, 1)], finish: 'length' as const };
    const { trajectory, server } = await play(
      async (endpoint) => {
        const first = await ask(endpoint, {});
        const head = [{ role: 'user', content: 'go' }, first.choices[0]!.message];
        await ask(endpoint, { messages: [...head, { role: 'user', content: 'one' }] });
        await ask(endpoint, { messages: [...head, { role: 'user', content: 'two' }] });
      },
      ({ turn }) => (turn === 0 ? odd : 'ok'),
    );
    expect(trajectory.segments).toHaveLength(2);
    const [first, one, two] = server.requests;
    const sampled = [...first!.prompt, ...odd.ids];
    expect([...one!.prompt.slice(0, sampled.length)]).toEqual(sampled);
    expect([...two!.prompt.slice(0, sampled.length)]).toEqual(sampled);
    expect(trainedTokens(trajectory.segments)).toEqual([odd.ids.length + 3, 3]);
  });

  test('sub-agents are segments of their names, and only those named are trained', async () => {
    const { trajectory } = await play(
      async (_, context) => {
        await ask(await context.endpoint({ agent: 'planner' }), {});
        await ask(await context.endpoint(), {});
        const { fetch, openai, apiKey } = await context.endpoint();
        await fetch(`${openai}/chat/completions`, {
          method: 'POST',
          headers: { 'x-api-key': apiKey, 'x-rollcall-agent': 'critic' },
          body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }] }),
        });
      },
      () => 'ok',
      { train: ['planner', 'main'] },
    );
    expect(trajectory.segments.map((segment) => segment.agent)).toEqual(['planner', undefined, 'critic']);
    expect(trainedTokens(trajectory.segments)).toEqual([3, 3, 0]);
    expect(trajectory.turns.map(({ untrained }) => untrained)).toEqual([undefined, undefined, 'agent']);
  });
});

describe('replies that nobody used', () => {
  test('a reply that is asked for again is not trained, and the answer after it is', async () => {
    const go = { role: 'user', content: 'go' };
    const run = async (endpoint: Endpoint) => {
      await ask(endpoint, {});
      const again = await ask(endpoint, {});
      await ask(endpoint, { messages: [go, again.choices[0]!.message, { role: 'user', content: 'on' }] });
    };
    const { trajectory } = await play(run, ({ turn }) => `${turn}`);
    expect(trajectory.turns.map(({ untrained }) => untrained)).toEqual(['abandoned', undefined, undefined]);
    const kept = await play(run, ({ turn }) => `${turn}`, { rules: { abandoned: 'train' } });
    expect(kept.trajectory.turns.map(({ untrained }) => untrained)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('a client that hangs up leaves an excluded partial, and its retry keeps the sampled history', async () => {
    const { trajectory, server } = await play(
      async (endpoint) => {
        const first = await ask(endpoint, {});
        const messages: OpenAI.ChatCompletionMessageParam[] = [
          { role: 'user', content: 'go' },
          first.choices[0]!.message,
          { role: 'user', content: 'on' },
        ];
        const stream = await openaiOf(endpoint).chat.completions.create({
          model: 'policy',
          messages,
          stream: true,
        });
        let seen = '';
        for await (const { choices } of stream) {
          seen += choices[0]?.delta.content ?? '';
          if (seen.length >= 3) break;
        }
        await ask(endpoint, { messages });
      },
      ({ turn }) => ['first', 'a long reply that is never read', 'short'][turn]!,
      { engine: { tokenMs: 2 } },
    );
    expect(trajectory.end).toEqual({ kind: 'completed' });
    const [, partial, last] = trajectory.turns;
    expect(partial).toMatchObject({ finish: 'abort', untrained: 'abandoned' });
    expect(partial!.end - partial!.start).toBeGreaterThan(2);
    expect(partial!.end - partial!.start).toBeLessThan(20);
    expect(last!.untrained).toBe(undefined);
    expect(server.requests[2]!.prompt).toEqual(server.requests[1]!.prompt);
    expect(trainedTokens(trajectory.segments)).toEqual([6, 6]);
    expect(trajectory.text).toBe('short');
  });
});

describe('streams', () => {
  test('pieces come while the reply is sampled, and the turn is recorded before the last event', async () => {
    const clock = virtualClock();
    const times: number[] = [];
    let turnsAtEnd = 0;
    await play(
      async (endpoint, context) => {
        const { fetch, openai, apiKey } = endpoint;
        const response = await fetch(`${openai}/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${apiKey}` },
          body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }], stream: true }),
        });
        for await (const bytes of response.body!) {
          times.push(clock.now());
          if (Buffer.from(bytes).includes('[DONE]')) turnsAtEnd = context.trajectory().turns.length;
        }
      },
      () => 'abcdef',
      { clock, engine: { clock, tokenMs: 1000 } },
    );
    expect(times[0]).toBe(1000);
    expect(times.at(-1)).toBe(7000);
    expect(new Set(times).size).toBeGreaterThanOrEqual(6);
    expect(turnsAtEnd).toBe(1);
  });

  test('chat.stream() gives the pieces of the reply, and breaking out of it gives the reply up', async () => {
    const pieces: string[] = [];
    const { trajectory } = await play(
      async (_, { model }) => {
        const whole = model.chat({ messages: [{ role: 'user', content: 'go' }] }).stream();
        let next = await whole.next();
        for (; !next.done; next = await whole.next()) pieces.push(next.value.content);
        expect(next.value.content).toBe(pieces.join(''));
        const left = model.chat({ messages: [{ role: 'user', content: 'on' }] }).stream();
        for await (const part of left) if (part.content !== '') break;
      },
      () => 'words',
      { engine: { tokenMs: 1 } },
    );
    expect(pieces.filter((piece) => piece !== '')).toEqual([...'words']);
    expect(trajectory.turns.map(({ untrained }) => untrained)).toEqual([undefined, 'abandoned']);
  });
});

test('while every server gets new weights a request waits, and after a while it is told when to come back', async () => {
  const clock = virtualClock();
  let isUpdating = true;
  await play(
    async (endpoint) => {
      const { fetch, openai, apiKey } = endpoint;
      const init = {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }] }),
      };
      const refused = await fetch(`${openai}/chat/completions`, init);
      expect([refused.status, refused.headers.get('retry-after'), clock.now()]).toEqual([429, '10', 20_000]);
      clock.timer(5000, () => {
        isUpdating = false;
      });
      const answered = await fetch(`${openai}/chat/completions`, init);
      expect([answered.status, clock.now()]).toEqual([200, 25_000]);
    },
    () => 'ok',
    { clock, rules: { isUpdating: () => isUpdating } },
  );
});

test('a schema acts where the engine can hold a reply to it, and such a reply is not trained', async () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  const { trajectory, server } = await play(
    (endpoint) =>
      ask(endpoint, { response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } }),
    () => '{"a": 1}',
    { rules: { constrains: true } },
  );
  expect(server.requests[0]!.sampling.constraint).toEqual({ kind: 'jsonSchema', schema });
  expect([trajectory.turns[0]!.untrained, trajectory.endpoint!.ignoredFields]).toEqual(['sampling', {}]);
});

describe('words from outside', () => {
  test('rewards, step rewards, exclusion and the end can be posted', async () => {
    const { trajectory } = await play(
      async (endpoint) => {
        const base = { ...endpoint, openai: endpoint.url };
        const first = await ask(endpoint, {});
        const second = await ask(endpoint, { messages: [{ role: 'user', content: 'other' }] });
        expect((await post(base, `/replies/${first.id}/reward`, { value: 0.25 })).status).toBe(200);
        expect((await post(base, `/replies/${second.id}/exclude`, {})).status).toBe(200);
        expect((await post(base, '/replies/nobody/exclude', {})).status).toBe(404);
        expect(await post(base, '/reward', { value: 'much' })).toMatchObject({
          status: 400,
          body: { error: { message: 'value is "much"; use a number' } },
        });
        await post(base, '/complete', { reward: 0.5 });
        expect(await endpoint.completed).toEqual({ reward: 0.5 });
      },
      () => 'ok',
    );
    expect(trajectory.ownReward).toBe(0.5);
    expect(trajectory.turns.map(({ reward, untrained }) => [reward, untrained])).toEqual([
      [0.25, undefined],
      [undefined, 'excluded'],
    ]);
  });

  test('a sub-agent is given a reward of its own, by its URL, by the agent or in a report', async () => {
    const run = async (_: Endpoint, context: AgentContext) => {
      const planner = await context.endpoint({ agent: 'planner' });
      await ask(planner, {});
      await ask(await context.endpoint({ agent: 'critic' }), {});
      const base = { ...planner, openai: planner.url };
      expect((await post(base, '/agents/planner/reward', { value: 0.25 })).status).toBe(200);
      await post(base, '/reward', { value: 1 });
      context.reward('critic', -1);
      await obeyReport({ agents: { judge: 2 } }, { context, endpoint: planner });
    };
    const { trajectory } = await play(run, () => 'ok');
    expect([trajectory.ownReward, trajectory.agentRewards]).toEqual([
      1,
      { planner: 0.25, critic: -1, judge: 2 },
    ]);
    expect(trajectory.chats.map((chat) => chat.agent)).toEqual(['planner', 'critic']);
    const stored = { ...trajectory, task: {}, rewards: {}, reward: 1 };
    const tokens = trajectory.segments.map((segment) => ({ ...segment, advantages: new Float32Array() }));
    const shown = stripVTControlCharacters(printTrajectory(stored, tokens, (ids) => tokenizer.decode(ids)));
    expect(shown).toMatch(/reward 1 {2}planner 0.25 {2}critic -1 {2}judge 2\n/);
    expect(shown).toContain('segment 2 of 2, agent critic');
  });

  test('a body that cannot be read is refused in our words', async () => {
    await play(
      async (endpoint) => {
        const told = async (body: unknown) =>
          (await post(endpoint, '/chat/completions', body)).body.error!.message;
        expect(await told('{')).toBe('the body is not JSON');
        expect(await told([])).toBe('the body is []; use an object');
        expect(await told({})).toBe('messages is missing');
        expect(await told({ messages: 'hi' })).toBe('messages is "hi"; use a list');
        expect(await told({ messages: [{ role: 'king', content: 'hi' }] })).toBe(
          'messages.0.role is "king"; use system, developer, user, assistant or tool',
        );
        expect(await told({ messages: [{ role: 'user', content: 'hi' }], temperature: 'hot' })).toBe(
          'temperature is "hot"; use a number',
        );
        expect(await told({ messages: [{ role: 'assistant', content: 'hi' }] })).toMatch(
          /the last message is the assistant's/,
        );
      },
      () => 'ok',
    );
  });

  test('after a limit, the client learns how the trajectory ended and does not try again', async () => {
    let requests = 0;
    const { trajectory } = await play(
      async ({ openai, apiKey, fetch }) => {
        const client = new OpenAI({
          baseURL: openai,
          apiKey,
          fetch: (...given: Parameters<typeof fetch>) => {
            requests++;
            return fetch(...given);
          },
        });
        for (let at = 0; ; at++)
          await client.chat.completions.create({
            model: 'p',
            messages: [{ role: 'user', content: `${at}` }],
          });
      },
      () => 'ok',
      { limits: { turns: 2 } },
    );
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'turns' });
    expect(requests).toBe(3);
  });

  test('a tool result that says is_error is a failed tool run', async () => {
    const broken = tool({ name: 'broken', description: 'd', input: z.object({}), run: () => 'x' });
    const { trajectory } = await play(
      async ({ anthropic, apiKey, fetch }) => {
        const send = async (dialogue: object[]) => {
          const response = await fetch(`${anthropic}/v1/messages`, {
            method: 'POST',
            headers: { 'x-api-key': apiKey },
            body: JSON.stringify({
              max_tokens: 100,
              messages: dialogue,
              tools: [{ name: 'broken', description: 'd', input_schema: broken.schema.function.parameters }],
            }),
          });
          return (await response.json()) as { content: { id: string }[] };
        };
        const go = { role: 'user', content: 'go' };
        const { content } = await send([go]);
        const result = { type: 'tool_result', tool_use_id: content[0]!.id, content: 'no', is_error: true };
        await send([go, { role: 'assistant', content }, { role: 'user', content: [result] }]);
      },
      ({ turn }) => (turn === 0 ? '<tool_call>{"name": "broken", "arguments": {}}</tool_call>' : 'ok'),
    );
    expect(trajectory.segments).toHaveLength(1);
    expect(trajectory.turns[0]!.toolRuns).toMatchObject([{ result: 'no', problem: { kind: 'tool-threw' } }]);
  });

  test('count_tokens is the length of the prompt that would be sent', async () => {
    const { server } = await play(
      async (endpoint) => {
        const { anthropic, apiKey, fetch } = endpoint;
        const body = JSON.stringify({
          max_tokens: 5,
          system: 'S',
          messages: [{ role: 'user', content: 'go' }],
        });
        const headers = { 'x-api-key': apiKey };
        const counted = await fetch(`${anthropic}/v1/messages/count_tokens`, {
          method: 'POST',
          headers,
          body,
        });
        const message = await fetch(`${anthropic}/v1/messages`, { method: 'POST', headers, body });
        const { usage } = (await message.json()) as { usage: { input_tokens: number } };
        expect(await counted.json()).toEqual({ input_tokens: usage.input_tokens });
      },
      () => 'ok',
    );
    expect(server.requests[0]!.prompt.length).toBeGreaterThan(10);
  });
});

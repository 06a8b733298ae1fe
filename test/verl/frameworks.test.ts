/** verl's LangGraph recipe (row B10), and the same for the AI SDK: their agents run here as they are, tokens exact. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
} from '@langchain/core/messages';
import { tool as langChainTool } from '@langchain/core/tools';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { generateText, tool as sdkTool, stepCountIs, streamText } from 'ai';
import fc from 'fast-check';
import { createAgent } from 'langchain';
import {
  type AgentContext,
  agent,
  arrayDataset,
  embedded,
  type Limits,
  reward,
  rollout,
  type Segment,
  type Task,
  tool,
  train,
} from 'rollcall';
import { languageModel } from 'rollcall/ai-sdk';
import { type ChatModelOptions, chatModel, recursionLimit, replyOf } from 'rollcall/langchain';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import type { ToolSchema } from 'rollcall/tools';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { tinyModel } from '../tiny-model.ts';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

async function play(
  run: (context: AgentContext<Task>) => Promise<unknown>,
  reply: ScriptedEngineOptions['reply'],
  limits: Partial<Limits> = {},
) {
  const engine = scriptedEngine({ tokenizer, reply });
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: agent(async (context) => void (await run(context))),
    server: engine,
    format,
    rewards: [reward('one', () => 1)],
    limits,
    seed: 1,
    failures: { tolerateShare: 1 },
  });
  return { trajectory: group!.attempts[0]!.trajectory, engine };
}

/**
 * What must hold of any trajectory: its sampled tokens are, in order, those that the engine gave, with their
 * log-probs; every request was what the transcript held before its reply.
 */
function expectExactTokens(segments: readonly Segment[], engine: ReturnType<typeof scriptedEngine>) {
  const sampled = segments.flatMap(({ ids, sampled }) => [...ids].filter((_, at) => sampled[at]));
  expect(sampled).toEqual(engine.replies.flatMap(({ ids }) => [...ids]));
  const logprobs = segments.flatMap((segment) =>
    [...segment.logprobs].filter((_, at) => segment.sampled[at]),
  );
  expect(logprobs).toEqual(engine.replies.flatMap((reply) => [...reply.logprobs]));
  for (const { sampled, trained } of segments) expect(trained).toEqual(sampled);
}

const shown = (segment: Segment | undefined) => tokenizer.decode(segment!.ids);

/** Spaced as no template would space it, so that encoding it again would show. */
const CALL = '<think>hm</think>Let me see. <tool_call>{"name":"add",  "arguments":{"b":3,"a":2}}</tool_call>';

/** The dialogue of both frameworks' first tests, written by hand in the template's form. */
const dialogue = (head: string, result = '5') =>
  `${head}<|im_start|>user\n2 + 3?<|im_end|>\n` +
  `<|im_start|>assistant\n${CALL}<|im_end|>\n` +
  `<|im_start|>tool\n${result}<|im_end|>\n<|im_start|>assistant\nIt is 5.<|im_end|>`;
const addReplies: ScriptedEngineOptions['reply'] = ({ turn }) => (turn === 0 ? CALL : 'It is 5.');
/** What stands before the first user message: the tools, as the template tells them. */
const headOf = (text: string) => text.slice(0, text.indexOf('<|im_start|>user'));
const withoutSchemaKey = (tool: ToolSchema): ToolSchema => {
  const { $schema: _, ...parameters } = tool.function.parameters;
  return { ...tool, function: { ...tool.function, parameters } };
};
const numbers = z.object({ a: z.number(), b: z.number() });

describe('verl 1.B10: LangGraph', () => {
  const add = langChainTool(({ a, b }) => String(a + b), {
    name: 'add',
    description: 'Adds.',
    schema: numbers,
  });
  const fail = langChainTool(
    () => {
      throw new Error('no luck');
    },
    { name: 'fail', description: '', schema: z.object({}) },
  );
  const ask = (context: AgentContext<Task>) =>
    createAgent({ model: chatModel(context.model), tools: [add, fail] }).invoke(
      { messages: [new HumanMessage('2 + 3?')] },
      { recursionLimit: recursionLimit(context.limits), signal: context.signal },
    );

  test('an agent of createAgent is one segment of exact tokens, its tool runs recorded', async () => {
    let messages: BaseMessage[] = [];
    const { trajectory, engine } = await play(async (context) => {
      messages = (await ask(context)).messages;
    }, addReplies);
    expect(trajectory.end).toEqual({ kind: 'completed' });
    expect(trajectory.segments).toHaveLength(1);
    const text = shown(trajectory.segments[0]);
    expect(text).toBe(dialogue(headOf(text)));
    expect(headOf(text)).toContain('"name": "add"');
    expect(headOf(text)).not.toContain('$schema');
    expectExactTokens(trajectory.segments, engine);
    expect([...engine.requests[1]!.prompt.slice(0, engine.requests[0]!.prompt.length)]).toEqual([
      ...engine.requests[0]!.prompt,
    ]);
    expect(trajectory.turns[0]!.toolRuns).toMatchObject([
      { call: { name: 'add', arguments: { a: 2, b: 3 } }, result: '5' },
    ]);
    const last = messages.at(-1)!;
    expect(last.text).toBe('It is 5.');
    expect(last.response_metadata.rollcall).toEqual({ turn: 2, ids: [...engine.replies[1]!.ids] });
  });

  /** A graph by hand, as in LangGraph's own guide: model, tools, and back while there are calls. */
  const handmade = (context: AgentContext<Task>, options: ChatModelOptions = {}) => {
    const model = chatModel(context.model, options).bindTools([add, fail]);
    return new StateGraph(MessagesAnnotation)
      .addNode('model', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
      .addNode('tools', new ToolNode([add, fail]))
      .addEdge(START, 'model')
      .addConditionalEdges('model', ({ messages }) => {
        const last = messages.at(-1);
        return AIMessage.isInstance(last) && last.tool_calls?.length ? 'tools' : END;
      })
      .addEdge('tools', 'model')
      .compile();
  };
  const runGraph = (context: AgentContext<Task>, options?: ChatModelOptions) =>
    handmade(context, options).invoke(
      { messages: [new SystemMessage('Be brief.'), new HumanMessage('go')] },
      { recursionLimit: recursionLimit(context.limits) },
    );

  test('a streamed graph gets a chunk for each word and samples the same tokens', async () => {
    const replies = [`Adding.${call('add', { a: 2, b: 3 })}`, 'It is five.'];
    const whole = await play(runGraph, ({ turn }) => replies[turn]!);
    const chunks: string[] = [];
    const { trajectory } = await play(
      async (context) => {
        const stream = await handmade(context).stream(
          { messages: [new SystemMessage('Be brief.'), new HumanMessage('go')] },
          { streamMode: 'messages', recursionLimit: recursionLimit(context.limits) },
        );
        for await (const [message] of stream) if (message.getType() === 'ai') chunks.push(message.text);
      },
      ({ turn }) => replies[turn]!,
    );
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.segments).toEqual(whole.trajectory.segments);
    expect(chunks.join('')).toBe('Adding.It is five.');
    expect(chunks.length).toBeGreaterThan(15);
  });

  test('in a StateGraph with a ToolNode, failed and unknown tools are told to the model and recorded', async () => {
    const { trajectory, engine } = await play(runGraph, ({ turn }) =>
      turn === 0 ? call('fail') + call('subtract') : 'done',
    );
    expect(trajectory.segments).toHaveLength(1);
    expectExactTokens(trajectory.segments, engine);
    expect(trajectory.turns[0]!.toolRuns.map(({ problem }) => problem?.kind)).toEqual([
      'tool-threw',
      'unknown-tool',
    ]);
    expect(shown(trajectory.segments[0])).toContain('no luck');
  });

  test('over budget the graph ends: calls of the last permitted turn, or of a cut reply, are not run', async () => {
    let runs = 0;
    const counted = langChainTool(() => String(++runs), {
      name: 'add',
      description: '',
      schema: z.object({}),
    });
    const run = ({ model, limits }: AgentContext<Task>) =>
      createAgent({ model: chatModel(model), tools: [counted] }).invoke(
        { messages: [new HumanMessage('go')] },
        { recursionLimit: recursionLimit(limits) },
      );
    const byTurns = await play(run, () => call('add'), { turns: 3 });
    expect(byTurns.trajectory.end).toEqual({ kind: 'truncated', why: 'turns' });
    expect([byTurns.trajectory.turns.length, runs]).toEqual([3, 2]);
    const length = tokenizer.encode(call('add')).length + 1;
    const byTokens = await play(run, () => call('add'), { tokensPerTrajectory: length });
    expect(byTokens.trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
    const cut = await play(run, () => ({ text: call('add'), finish: 'length' }));
    expect(cut.trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
    expect(runs).toBe(2);
  });

  /** Twice a call that cannot be read, then one that can, then the answer. */
  const MALFORMED = '<tool_call>{"name": "add", "arguments": {"a": 2,}</tool_call>';
  const stumbling: ScriptedEngineOptions['reply'] = ({ turn }) =>
    [MALFORMED, MALFORMED, call('add', { a: 2, b: 3 }), 'It is 5.'][turn]!;

  test('a call that cannot be read is answered to the model, as an own loop does, token for token', async () => {
    let messages: BaseMessage[] = [];
    const { trajectory, engine } = await play(async (context) => {
      messages = (await runGraph(context)).messages;
    }, stumbling);
    const schemas = [add, fail].map((one) => convertToOpenAITool(one) as ToolSchema);
    const own = await play(async ({ model }) => {
      const toolSchemas = schemas.map((schema) => withoutSchemaKey(schema));
      const chat = model.chat({ system: 'Be brief.', toolSchemas });
      chat.user('go');
      for (;;) {
        const reply = await chat.sample();
        if (reply.final) return;
        chat.answer(
          reply,
          reply.toolCalls.map((one) => ({ call: one, result: '5' })),
        );
      }
    }, stumbling);
    expect([trajectory.end.kind, trajectory.turns.length, trajectory.segments.length]).toEqual([
      'completed',
      4,
      1,
    ]);
    expectExactTokens(trajectory.segments, engine);
    expect(shown(trajectory.segments[0])).toBe(shown(own.trajectory.segments[0]));
    expect(trajectory.segments[0]!.ids).toEqual(own.trajectory.segments[0]!.ids);
    expect(messages.map((message) => message.getType())).toEqual(['system', 'human', 'ai', 'tool', 'ai']);
  });

  test('replyOf gives the handle of a reply, for its step reward and for exclusion', async () => {
    const { trajectory } = await play(async (context) => {
      const { messages } = await ask(context);
      const [first, last] = messages.filter((message) => AIMessage.isInstance(message));
      context.reward(replyOf(first!), 0.25);
      context.exclude(replyOf(last!));
      expect(() => replyOf(messages[0]!)).toThrow(/not a reply of the policy/);
      expect(() => context.exclude({ turn: 9 })).toThrow('turn 9 is not a reply of this trajectory');
    }, addReplies);
    expect(trajectory.turns.map(({ reward: credit }) => credit)).toEqual([0.25, undefined]);
    const [{ trained, sampled, turns }] = trajectory.segments as [Segment];
    expect([...trained]).toEqual([...sampled].map((one, at) => (turns[at] === 2 ? 0 : one)));
  });

  test('on request, invalid JSON arguments are invalid_tool_calls, and the graph ends', async () => {
    let last: BaseMessage | undefined;
    const { trajectory } = await play(
      async (context) => {
        last = (await runGraph(context, { unreadableCalls: 'return' })).messages.at(-1);
      },
      () => MALFORMED,
    );
    expect(AIMessage.isInstance(last) && last.invalid_tool_calls).toMatchObject([
      { name: 'add', args: expect.stringContaining('"a": 2,'), error: expect.any(String) },
    ]);
    expect(trajectory.turns.map(({ problems }) => problems.map(({ kind }) => kind))).toEqual([
      ['malformed-call'],
    ]);
  });

  test('a bad call beside a good one is told to the model after the good one has run', async () => {
    const { trajectory } = await play(runGraph, ({ turn }) =>
      turn === 0 ? `${call('add', { a: 1, b: 1 })}<tool_call>{</tool_call>` : 'done',
    );
    const roles = trajectory.messages.map(({ role }) => role);
    expect(roles).toEqual(['system', 'user', 'assistant', 'tool', 'tool', 'assistant']);
    expect(trajectory.messages[4]!.content).toBe(trajectory.turns[0]!.problems[0]!.message);
    expect(trajectory.segments).toHaveLength(1);
  });

  test('the recursion limit leaves room for every turn: the larger of 50 and three a turn', async () => {
    expect([8, 16, 17, 25].map((turns) => recursionLimit({ turns }))).toEqual([50, 50, 51, 75]);
    const { trajectory } = await play(runGraph, () => call('add', { a: 1, b: 1 }), { turns: 30 });
    expect([trajectory.turns.length, trajectory.end]).toEqual([30, { kind: 'truncated', why: 'turns' }]);
  });

  test('a rewritten history is a new segment, and so are replies asked for at the same time', async () => {
    const question = new HumanMessage('go');
    const rewriting = await play(
      async ({ model }) => {
        const first = await chatModel(model).invoke([question]);
        await chatModel(model).invoke([question, first, new HumanMessage('on')]);
        await chatModel(model).invoke([question, new AIMessage('Summary.'), new HumanMessage('on')]);
      },
      ({ turn }) => `reply ${turn}`,
    );
    const [one, two] = rewriting.trajectory.segments;
    expect(rewriting.trajectory.segments).toHaveLength(2);
    expect([one!, two!].map(({ turns }) => [...new Set(turns)])).toEqual([
      [0, 1, 2],
      [0, 3],
    ]);
    expectExactTokens(rewriting.trajectory.segments, rewriting.engine);
    const parallel = await play(
      async ({ model }) => {
        const first = await chatModel(model).invoke([question]);
        const next = [question, first, new HumanMessage('on')];
        await Promise.all([chatModel(model).invoke(next), chatModel(model).invoke(next)]);
      },
      ({ turn }) => `reply ${turn}`,
    );
    expect(parallel.trajectory.segments).toHaveLength(2);
    expect(parallel.trajectory.turns).toHaveLength(3);
  });

  test('ids of calls differ through the whole trajectory, so that a ToolNode runs those of a rewritten history', async () => {
    const { trajectory } = await play(
      async ({ model }) => {
        const policy = chatModel(model).bindTools([add]);
        const tools = new ToolNode([add]);
        let messages: BaseMessage[] = [new HumanMessage('go')];
        for (const system of ['Be brief.', 'Be kind.']) {
          const reply = await policy.invoke([new SystemMessage(system), ...messages]);
          const { messages: answers } = await tools.invoke({ messages: [...messages, reply] });
          messages = [...messages, reply, ...answers];
        }
        const ids = messages.flatMap((message) => (AIMessage.isInstance(message) ? message.tool_calls! : []));
        expect(new Set(ids.map(({ id }) => id)).size).toBe(2);
        await policy.invoke([new SystemMessage('Be kind.'), ...messages]);
      },
      ({ turn }) => (turn < 2 ? call('add', { a: turn, b: 1 }) : 'done'),
    );
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.segments).toHaveLength(2);
    expect(trajectory.turns.map(({ segment }) => segment)).toEqual([0, 1, 1]);
    expect(trajectory.turns[1]!.toolRuns).toMatchObject([{ call: { id: 'call_0' }, result: '2' }]);
  });

  test("in a rewritten history only the dataset's own words may hold special tokens", async () => {
    const trusting = byteModel({ trustPromptSpecialTokens: true });
    const engine = scriptedEngine({ tokenizer, reply: () => 'ok' });
    const forged = '<|im_end|>';
    await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 1,
      agent: agent(async ({ model }) => {
        const messages = [new HumanMessage(forged), new AIMessage('I'), new HumanMessage(forged)];
        await chatModel(model).invoke(messages);
      }),
      server: engine,
      format: trusting.format,
      rewards: [],
      seed: 1,
    });
    const end = tokenizer.encode(forged);
    expect(end).toHaveLength(1);
    const ids = [...engine.requests[0]!.prompt];
    expect(ids.filter((id) => id === end[0])).toHaveLength(4); // three that the template wrote, one that was trusted
  });

  test('whatever a graph does to its messages, each reply that it did not ask for again is trained once, in the context it was sampled in', async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('say'), text: fc.string({ unit: 'grapheme', maxLength: 8 }) }),
      fc.record({
        kind: fc.constant('forget'),
        text: fc.constant(''),
        messages: fc.integer({ min: 1, max: 3 }),
      }),
      fc.record({ kind: fc.constant('rewrite'), text: fc.string({ minLength: 1, maxLength: 3 }) }),
    );
    const dialogues = fc.array(step, { minLength: 1, maxLength: 8 });
    const answers = fc.array(fc.string({ unit: 'grapheme', maxLength: 10 }), { minLength: 8, maxLength: 8 });
    const property = fc.asyncProperty(dialogues, answers, async (steps, replies) => {
      const served = new Map<string, { isUsed: boolean }>(); // what a chat has come to, as text
      const answered = new Map<string, { turn: number; isUsed: boolean }>(); // by what was asked, as text
      const repeated = new Set<number>();
      let expected = 0;
      let turns = 0;
      const { trajectory, engine } = await play(
        async ({ model }) => {
          let system = 'S';
          let messages: BaseMessage[] = [];
          for (const one of steps) {
            if (one.kind === 'rewrite') system += one.text;
            if ('messages' in one) messages = messages.slice(0, -one.messages);
            const asked = [new SystemMessage(system), ...messages, new HumanMessage(one.text)];
            const texts = asked.map((message) => message.getType() + message.text);
            const known = texts
              .map((_, at) => served.get(JSON.stringify(texts.slice(0, at))))
              .findLast((one) => one !== undefined);
            if (known === undefined || known.isUsed) expected++;
            if (known) known.isUsed = true;
            const before = answered.get(JSON.stringify(texts));
            if (before && !before.isUsed) repeated.add(before.turn);
            const reply = await chatModel(model).invoke(asked);
            const answer = { turn: turns++, isUsed: false };
            answered.set(JSON.stringify(texts), answer);
            served.set(JSON.stringify([...texts, `ai${reply.text}`]), answer);
            messages = [...asked.slice(1), reply];
          }
        },
        ({ turn }) => replies[turn]!,
        { turns: 100, tokensPerTrajectory: 100_000 },
      );
      expect(trajectory.end.kind).toBe('completed');
      expect(trajectory.segments).toHaveLength(expected);
      trajectory.turns.forEach(({ segment, start, end }, turn) => {
        const { ids, trained } = trajectory.segments[segment]!;
        expect(ids.slice(0, start)).toEqual(engine.requests[turn]!.prompt);
        expect(ids.slice(start, end)).toEqual(engine.replies[turn]!.ids);
        expect(new Set(trained.slice(start, end))).toEqual(new Set([repeated.has(turn) ? 0 : 1]));
      });
      const trained = trajectory.segments.reduce(
        (sum, one) => sum + one.trained.reduce((a, b) => a + b, 0),
        0,
      );
      const kept = engine.replies.filter((_, turn) => !repeated.has(turn));
      expect(trained).toBe(kept.reduce((sum, { ids }) => sum + ids.length, 0));
    });
    await fc.assert(property, { numRuns: 60 });
  });

  test("a graph may run the run's own tools; a result that it changes is what the model reads, in a new segment", async () => {
    const count = tool({
      name: 'count',
      description: '',
      input: {},
      run: () => ({ content: 'one', reward: 0.5 }),
    });
    const asked = async (model: AgentContext['model'], change: (answer: ToolMessage) => ToolMessage) => {
      const policy = chatModel(model, { tools: [count] });
      const question = new HumanMessage('go');
      const reply = await policy.invoke([question]);
      const [answer] = await policy.runTools(reply);
      expect(await policy.runTools(reply)).toMatchObject([{ content: 'one' }]); // run once
      await policy.invoke([question, reply, change(answer!)]);
      await expect(policy.runTools(new AIMessage('mine'))).rejects.toThrow(/not a reply of the policy/);
    };
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => (turn === 0 ? call('count') : 'done');
    const kept = await play(({ model }) => asked(model, (answer) => answer), reply);
    expectExactTokens(kept.trajectory.segments, kept.engine);
    expect(kept.trajectory.turns[0]!.toolRuns).toMatchObject([{ result: 'one', reward: 0.5 }]);
    expect(kept.trajectory.segments.map(shown)).toEqual([
      expect.stringContaining('<|im_start|>tool\none<|im_end|>'),
    ]);
    const other = (answer: ToolMessage) =>
      new ToolMessage({ content: 'two', tool_call_id: answer.tool_call_id });
    const changed = await play(({ model }) => asked(model, other), reply);
    expectExactTokens(changed.trajectory.segments, changed.engine);
    expect(changed.trajectory.segments.map(shown)).toEqual([
      expect.stringMatching(/count(.|\n)*<\|im_end\|>$/),
      expect.stringContaining('<|im_start|>tool\ntwo<|im_end|>'),
    ]);
  });

  test('what cannot be done is refused in words', async () => {
    const failure = async (run: (context: AgentContext<Task>) => Promise<unknown>) => {
      const { end } = (await play(run, () => 'ok')).trajectory;
      return end.kind === 'failed' ? end.message : end.kind;
    };
    expect(
      await failure(({ model }) => chatModel(model).bindTools([add], { tool_choice: 'any' }).invoke('go')),
    ).toMatch(/tool_choice is "any"; the policy must choose freely/);
    expect(await failure(({ model }) => chatModel(model).invoke([new AIMessage('I')]))).toMatch(
      /the last message is the assistant's; a reply answers the user or a tool/,
    );
    const image = new HumanMessage({ content: [{ type: 'image_url', image_url: 'x' }] });
    expect(await failure(({ model }) => chatModel(model).invoke([image]))).toMatch(
      /reads text, and images that context.image\(\) has stored/,
    );
  });
});

describe('verl 1.B10: the AI SDK', () => {
  const add = sdkTool({
    description: 'Adds.',
    inputSchema: numbers,
    execute: ({ a, b }) => a + b,
  });
  const ask = ({ model, limits, signal }: AgentContext<Task>) =>
    generateText({
      model: languageModel(model),
      tools: { add },
      prompt: '2 + 3?',
      stopWhen: stepCountIs(limits.turns),
      abortSignal: signal,
    });

  test('generateText with tools is one segment of exact tokens, also where validation reorders arguments', async () => {
    let text = '';
    const { trajectory, engine } = await play(async (context) => {
      const result = await ask(context);
      text = result.text;
      context.reward(replyOf(result.steps[0]!), 0.5);
    }, addReplies);
    expect(trajectory.turns[0]!.reward).toBe(0.5);
    expect([text, trajectory.end.kind, trajectory.segments.length]).toEqual(['It is 5.', 'completed', 1]);
    const all = shown(trajectory.segments[0]);
    expect(all).toBe(dialogue(headOf(all)));
    expectExactTokens(trajectory.segments, engine);
    expect(trajectory.turns[0]!.toolRuns).toMatchObject([{ call: { name: 'add' }, result: '5' }]);
  });

  test('streamText gives the same, a piece for each token', async () => {
    const { trajectory } = await play(async ({ model }) => {
      const { textStream } = streamText({
        model: languageModel(model),
        tools: { add },
        prompt: '2 + 3?',
        stopWhen: stepCountIs(5),
      });
      const pieces: string[] = [];
      for await (const piece of textStream) pieces.push(piece);
      expect([pieces.join(''), pieces.length]).toEqual(['It is 5.', 'It is 5.'.length - 2]); // spaces wait for what follows
    }, addReplies);
    const all = shown(trajectory.segments[0]);
    expect(all).toBe(dialogue(headOf(all)));
  });

  test('bad arguments, unknown tools and unreadable calls are told, and the loop goes on in the same segment', async () => {
    const replies = [
      call('add', { a: 'two', b: 3 }),
      call('subtract'),
      '<tool_call>{"name": "add", "arguments": {"a": 2,}</tool_call>',
      'done',
    ];
    const { trajectory, engine } = await play(ask, ({ turn }) => replies[turn]!);
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.segments).toHaveLength(1);
    expectExactTokens(trajectory.segments, engine);
    const kinds = trajectory.turns.map(({ toolRuns, problems }) => [
      ...toolRuns.map(({ problem }) => problem?.kind),
      ...problems.map(({ kind }) => kind),
    ]);
    expect(kinds).toEqual([['tool-threw'], ['unknown-tool'], ['malformed-call'], []]);
    expect(trajectory.messages.map(({ role }) => role)).toEqual(
      'user assistant tool assistant tool assistant user assistant'.split(' '),
    );
  });

  test('limits end the loop; calls of the last permitted turn are not run', async () => {
    let runs = 0;
    const counted = sdkTool({ inputSchema: z.object({}), execute: () => ++runs });
    const { trajectory } = await play(
      ({ model }) =>
        generateText({
          model: languageModel(model),
          tools: { counted },
          prompt: 'go',
          stopWhen: stepCountIs(99),
        }),
      () => call('counted'),
      { turns: 3 },
    );
    expect([trajectory.end, runs]).toEqual([{ kind: 'truncated', why: 'turns' }, 2]);
  });

  test('sampling options reach the server; another temperature takes the reply out of training', async () => {
    const { trajectory, engine } = await play(
      ({ model }) =>
        generateText({
          model: languageModel(model),
          prompt: 'go',
          temperature: 0.5,
          topP: 0.9,
          maxOutputTokens: 7,
          stopSequences: ['x'],
        }),
      () => 'ok',
    );
    expect(engine.requests[0]!.sampling).toMatchObject({
      temperature: 0.5,
      topP: 0.9,
      maxTokens: 7,
      stopStrings: ['x'],
    });
    expect(trajectory.segments[0]!.trained).not.toContain(1);
  });
});

test('verl 1.B10: only the adapters import a framework, and only their subpaths import the adapters', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const filesWith = (pattern: RegExp) =>
    files.filter((file) => pattern.test(readFileSync(join('src', file), 'utf8'))).sort();
  expect(
    filesWith(
      /from '(@langchain|@ai-sdk|@openai|langchain|ai['/])|import\('(@langchain|@ai-sdk|@openai|ai')/,
    ),
  ).toEqual([
    'agent/adapters/ai-sdk.ts',
    'agent/adapters/langchain.ts',
    'agent/adapters/openai-agents.ts',
    'agent/adapters/react-graph.ts',
  ]);
  expect(filesWith(/adapters\/react-graph/)).toEqual(['agent/react-agent.ts']);
  expect(readFileSync('src/agent/react-agent.ts', 'utf8')).not.toMatch(/from '.*react-graph/); // loaded when needed
  expect(filesWith(/adapters\/(langchain|ai-sdk|openai-agents)/)).toEqual([
    'exports/ai-sdk.ts',
    'exports/langchain.ts',
    'exports/openai-agents.ts',
  ]);
});

test('verl 1.B10: agents of both frameworks are trained by train() on a real model', {
  timeout: 120_000,
}, async () => {
  const add = langChainTool(({ a, b }) => String(a + b), {
    name: 'add',
    description: 'Adds.',
    schema: numbers,
  });
  const agents = [
    agent<Task>(async ({ task, model, limits, signal }) => {
      const graph = createAgent({ model: chatModel(model), tools: [add] });
      const messages = [new HumanMessage(String(task.question))];
      await graph.invoke({ messages }, { recursionLimit: recursionLimit(limits), signal });
    }),
    agent<Task>(async ({ task, model, signal }) => {
      const prompt = String(task.question);
      await generateText({ model: languageModel(model), prompt, abortSignal: signal });
    }),
  ];
  const model = await tinyModel();
  for (const one of agents) {
    const reports = [];
    for await (const report of train({
      model,
      runDir: join(await mkdtemp(join(tmpdir(), 'rollcall-frameworks-')), 'run'),
      tasks: arrayDataset<Task>([{ question: '2 + 3?' }, { question: '4 + 4?' }]),
      agent: one,
      rewards: [reward('short', ({ trajectory }) => 1 / (1 + trajectory.text.length))],
      ...embedded({ threads: 1 }),
      steps: 2,
      tasksPerStep: 2,
      attemptsPerTask: 3,
      limits: { tokensPerReply: 12 },
      evaluation: { every: 0, before: false },
      optimizer: { learningRate: 1e-2 },
    })) {
      reports.push(report);
    }
    expect(reports.map(({ version }) => version)).toEqual([1, 2]);
    const attempts = reports[1]!.groups.flatMap((group) => group.attempts);
    expect(attempts.every(({ reward: value }) => value !== undefined)).toBe(true);
    for (const { trajectory } of attempts) {
      const [segment] = trajectory.segments;
      expect(segment!.trained).toContain(1);
      expect([...segment!.versions].filter((_, at) => segment!.sampled[at])).toContain(1);
    }
  }
});

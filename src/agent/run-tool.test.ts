import { expect, test } from 'vitest';
import { z } from 'zod';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { ConfigError, ToolError } from '../errors.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { ToolCall, ToolRun } from '../types.ts';
import { type RunToolOutcome, runTool } from './run-tool.ts';
import { checkToolNames, type Tool, tool } from './tool.ts';

const words = {
  encode: (text: string) => Array.from(text.match(/\s*\S+/g) ?? [], (_, index) => index),
  decode: (ids: readonly number[]) => ids.map((id) => ` w${id}`).join(''),
};

function run(
  tools: readonly Tool[],
  name: string,
  given: Record<string, unknown>,
  clock: Clock = virtualClock(),
) {
  const call: ToolCall = { id: 'call_0', name, arguments: given };
  return runTool(call, {
    tools,
    limits: { toolTimeoutMs: 1000, tokensPerToolResult: 50 },
    tokens: words,
    clock,
    signal: new AbortController().signal,
    contextOf: async (one) => ({
      state: await one.open(undefined as never),
      task: {},
      trajectory: undefined as never,
      image: undefined as never,
      clock,
      signal: new AbortController().signal,
    }),
  });
}

const ranOf = (outcome: RunToolOutcome): ToolRun => {
  if (outcome.kind !== 'ran') throw new Error(`expected a run, got ${outcome.kind}`);
  return outcome.run;
};

const double = tool({
  name: 'double',
  description: 'Doubles a number.',
  input: z.object({ value: z.int(), unit: z.enum(['cm', 'm']).default('cm') }),
  run: ({ value, unit }) => `${2 * value} ${unit}`,
});

test('the model sees a tool in the OpenAI function form, without noise', () => {
  expect(double.schema).toEqual({
    type: 'function',
    function: {
      name: 'double',
      description: 'Doubles a number.',
      parameters: {
        type: 'object',
        properties: {
          value: { type: 'integer' },
          unit: { type: 'string', enum: ['cm', 'm'], default: 'cm' },
        },
        required: ['value'],
      },
    },
  });
});

test('checked input reaches the tool, defaults filled in', async () => {
  expect(ranOf(await run([double], 'double', { value: 21 })).result).toBe('42 cm');
});

test('an unknown tool is answered with the tools there are', async () => {
  const { result, problem } = ranOf(await run([double], 'solve_equation', {}));
  expect(result).toBe("Unknown tool 'solve_equation'. Available tools: double.");
  expect(problem?.kind).toBe('unknown-tool');
});

test('bad arguments are answered with every wrong path', async () => {
  const { result, problem } = ranOf(await run([double], 'double', { value: 'x', unit: 'mile' }));
  expect(problem?.kind).toBe('bad-arguments');
  expect(result).toMatch(/^Invalid arguments for 'double': value: .*expected number.*; unit: .*"cm"\|"m"/);
});

test('a plain JSON schema is checked too, nested keys kept in the prompt', async () => {
  const search = tool({
    name: 'search',
    description: '',
    input: {
      type: 'object',
      properties: {
        queries: { type: 'array', items: { type: 'string', minLength: 1 } },
        mode: { enum: ['a', 'b'] },
      },
      required: ['queries'],
      additionalProperties: false,
    },
    run: ({ queries }) => ({ found: queries }),
  });
  expect(search.schema.function.parameters).toHaveProperty('properties.queries.items.minLength', 1);
  expect(ranOf(await run([search], 'search', { queries: ['ä'] })).result).toBe('{"found":["ä"]}');
  const { result } = ranOf(await run([search], 'search', { queries: ['ok', 3], mode: 'c', extra: 1 }));
  expect(result).toBe(
    `Invalid arguments for 'search': unknown key 'extra'; queries.1: must be string; mode: must be one of ["a","b"].`,
  );
});

test('a tool that throws becomes a message to the model', async () => {
  const broken = tool({
    name: 'broken',
    description: '',
    input: z.object({}),
    run: () => {
      throw new Error('disk on fire');
    },
  });
  const { result, problem } = ranOf(await run([broken], 'broken', {}));
  expect(result).toBe("Error executing tool 'broken': disk on fire");
  expect(problem).toEqual({ kind: 'tool-threw', message: result, source: 'broken' });
});

test('a tool that hangs is stopped at its own limit, and its signal aborts', async () => {
  const clock = virtualClock();
  let aborted = false;
  const slow = tool({
    name: 'slow',
    description: '',
    input: z.object({}),
    timeoutMs: 250,
    run: async (_, { signal }) => {
      signal.addEventListener('abort', () => {
        aborted = true;
      });
      await sleep(clock, 60_000, signal);
      return 'never';
    },
  });
  const { problem, milliseconds } = ranOf(await run([slow], 'slow', {}, clock));
  expect(problem?.kind).toBe('tool-timeout');
  expect(problem?.message).toContain('0.25 s');
  expect(milliseconds).toBe(250);
  expect(aborted).toBe(true);
  expect(clock.pending).toBe(0);
});

test('a ToolError is the environment, not the model', async () => {
  const gone = tool({
    name: 'gone',
    description: '',
    input: z.object({}),
    run: () => {
      throw new ToolError('the MCP server is gone');
    },
  });
  expect(await run([gone], 'gone', {})).toMatchObject({ kind: 'environment' });
});

test('results of every form become text; a step reward and metrics stay beside it', async () => {
  const outputs: [unknown, Partial<ToolRun>][] = [
    ['text', { result: 'text' }],
    [undefined, { result: '' }],
    [0.1 + 0.2, { result: '0.30000000000000004' }],
    [false, { result: 'false' }],
    [{ a: ['ü'] }, { result: '{"a":["ü"]}' }],
    [[1, 2], { result: '[1,2]' }],
    [
      { content: 'seen', reward: -0.05, metrics: { hits: 2 } },
      { result: 'seen', reward: -0.05, metrics: { hits: 2 } },
    ],
  ];
  for (const [output, expected] of outputs) {
    const any = tool({ name: 'any', description: '', input: {}, run: () => output as string });
    expect(ranOf(await run([any], 'any', {}))).toMatchObject(expected);
  }
});

test('images come before the text', async () => {
  const image = { blob: 'aa', mime: 'image/png', width: 1, height: 1, tokens: 4 };
  const camera = tool({
    name: 'camera',
    description: '',
    input: {},
    run: () => ({ content: 'a cat', images: [image] }),
  });
  expect(ranOf(await run([camera], 'camera', {})).result).toEqual([
    { type: 'image', image },
    { type: 'text', text: 'a cat' },
  ]);
});

test('what cannot be written as JSON is a tool that threw', async () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  const circular = tool({ name: 'circular', description: '', input: {}, run: () => loop });
  expect(ranOf(await run([circular], 'circular', {})).problem?.kind).toBe('tool-threw');
});

test('a pure tool is remembered by what the model wrote, whatever its schema makes of it', async () => {
  const input = z.object({ pattern: z.string().transform((text) => new RegExp(text)) });
  const search = tool({
    name: 'search',
    description: '',
    input,
    pure: true,
    run: ({ pattern }) => `found ${pattern.source}`,
  });
  expect(ranOf(await run([search], 'search', { pattern: 'a' })).result).toBe('found a');
  expect(ranOf(await run([search], 'search', { pattern: 'b' })).result).toBe('found b');
});

test('an object is the long form only if it has nothing else', async () => {
  const page = { title: 'T', content: 'body', url: 'u' };
  const fetched = tool({ name: 'fetched', description: '', input: {}, run: () => page });
  expect(ranOf(await run([fetched], 'fetched', {})).result).toBe(JSON.stringify(page));
  const scored = tool({
    name: 'scored',
    description: '',
    input: {},
    run: () => ({ content: 'ok', reward: 1 }),
  });
  expect(ranOf(await run([scored], 'scored', {}))).toMatchObject({ result: 'ok', reward: 1 });
});

test('a pure tool runs once per input, and hits are recorded', async () => {
  let runs = 0;
  const pure = tool({ name: 'pure', description: '', input: {}, pure: true, run: () => String(++runs) });
  expect(ranOf(await run([pure], 'pure', { a: 1 }))).toMatchObject({ result: '1' });
  expect(ranOf(await run([pure], 'pure', { a: 1 }))).toMatchObject({ result: '1', cached: true });
  expect(ranOf(await run([pure], 'pure', { a: 2 }))).toMatchObject({ result: '2' });
  expect(runs).toBe(2);
});

test('a long result is shortened to the limit in tokens', async () => {
  const long = tool({ name: 'long', description: '', input: {}, run: () => 'word '.repeat(80) });
  const { result } = ranOf(await run([long], 'long', {}));
  expect(result).toContain('(30 tokens left out)');
  expect(String(result).match(/w\d+/g)).toHaveLength(50);
});

test('what cannot work is refused when the tool is made', () => {
  const base = { description: '', run: () => '' };
  expect(() => tool({ ...base, name: 'has space', input: {} })).toThrow(ConfigError);
  expect(() => tool({ ...base, name: 'x', input: { type: 'strnig' } })).toThrow(/not a valid JSON schema/);
  expect(() => tool({ ...base, name: 'x', input: {}, pure: true, open: () => 1 })).toThrow(/pure/);
  expect(() => checkToolNames([double, double])).toThrow(/'double'/);
});

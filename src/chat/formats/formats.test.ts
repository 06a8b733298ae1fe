import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { unaccounted, word } from '../../../test/accounted.ts';
import { familyFormat, templateFile } from '../../../test/chat-models.ts';
import { type Call, FAMILIES, schemaFor } from '../../../test/tool-call-families.ts';
import type { ToolSchema } from '../../types.ts';
import { detectToolFormat } from '../detect.ts';
import type { CallPart } from '../format.ts';

const words = fc
  .string({ unit: 'binary', maxLength: 12 })
  .filter((text) => !/[<>｜|\uD800-\uDFFF\uFDD0\uFDD1]/.test(text));
const text = words.map((value) => value.trim());
const leaf = fc.oneof(
  text,
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 }).map((value) => value + 0 || 0),
);
const key = fc.stringMatching(/^[a-z][a-z_]{0,7}$/);
const value = fc.oneof(
  leaf,
  fc.array(leaf, { maxLength: 3 }),
  fc.dictionary(key, leaf, { maxKeys: 3, noNullPrototype: true }),
);
const call = fc.record({
  name: fc.stringMatching(/^[a-z][a-z_0-9]{0,9}$/),
  arguments: fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true }),
});
/** A tool has one schema: the same argument is of the same type in each of its calls. */
const calls = (most: number) =>
  fc.uniqueArray(call, { minLength: 1, maxLength: most, selector: ({ name }) => name });

const asked = { role: 'user', content: 'Go.' } as const;

describe.each(FAMILIES.map((family) => [family.format, family] as const))('%s', (name, family) => {
  const { tokenizer, format } = familyFormat(family);
  const read = (reply: string, tools: readonly ToolSchema[] = []) => {
    const { content, reasoning, toolCalls, problems } = format.parseReply(tokenizer.encode(reply), tools);
    return {
      content,
      reasoning,
      calls: toolCalls.map(({ name, arguments: given }) => ({ name, arguments: given })),
      problems: problems.map(({ kind }) => kind),
    };
  };
  const nothing = { content: '', reasoning: '', calls: [], problems: [] };
  const one: Call = { name: 'add', arguments: { a: 1, b: -2.5 } };

  test('is what the family template betrays', () => {
    const { template, telltale = '', detected } = family;
    const written = template ? templateFile(template) : `${detected ?? family.write([one])} ${telltale}`;
    expect(detectToolFormat(written)?.name).toBe(name);
    expect(format.toolFormat).toBe(name);
  });

  const rendered = fc.sample(calls(family.parallel ? 3 : 1), { numRuns: 22, seed: 7 });
  test.skipIf(!family.template).each(rendered.map((made, at) => [at, made] as const))(
    'reads what its template wrote, case %i',
    (_, made) => {
      expect(readRendered(made)).toEqual({ ...nothing, calls: made });
    },
  );

  /** The template writes the calls; what stands between the generation prompt and the next message is read. */
  function readRendered(made: readonly Call[]) {
    const tools = schemaFor(made);
    const toolCalls = made.map((each, at) => ({ ...each, id: `call_${at}` }));
    const reply = { role: 'assistant', content: '', toolCalls } as const;
    const prompt = format.renderPrompt([asked], tools).ids;
    const whole = format.renderPrompt(
      [asked, reply, { role: 'tool', content: 'ok', toolCallId: 'call_0', name: made[0]!.name }],
      tools,
    ).ids;
    const common = prompt.findIndex((id, at) => whole[at] !== id);
    const start = common < 0 ? prompt.length : common;
    const text = format.decode(whole.slice(start));
    const end = Math.max(...ENDS.map((mark) => text.indexOf(mark)));
    expect(end).toBeGreaterThan(0);
    return read(text.slice(0, end), tools);
  }

  test.skipIf(!family.template)('any calls that its template wrote are read back', () => {
    fc.assert(
      fc.property(calls(family.parallel ? 4 : 1), (made) => {
        expect(readRendered(made)).toEqual({ ...nothing, calls: made });
      }),
      { numRuns: 60 },
    );
  });

  test.skipIf(family.valuesAsText)('any calls that it writes are read back', () => {
    fc.assert(
      fc.property(calls(3), (made) => {
        expect(read(family.write(made), schemaFor(made))).toEqual({ ...nothing, calls: made });
      }),
      { numRuns: 60 },
    );
  });

  const two: Call = { name: 'look_up', arguments: { word: 'río 河 👩‍👩‍👧 "quoted" \\ back' } };
  const nested: Call = {
    name: 'plan',
    arguments: family.valuesAsText
      ? { steps: [{ do: ['x'] }], limits: { deep: { er: 'half' } } }
      : { steps: [{ do: ['x', null, true] }, {}], limits: { deep: { er: 0.5 } } },
  };
  const none: Call = { name: 'now', arguments: {} };
  const tools = schemaFor([one, two, nested, none]);
  const good: [what: string, reply: string, expected: Partial<typeof nothing> | { calls: Call[] }][] = [
    ['one call', family.write([one]), { calls: [one] }],
    ['a call without arguments', family.write([none]), { calls: [none] }],
    ['unicode and quotes', family.write([two]), { calls: [two] }],
    ['nested arguments', family.write([nested]), { calls: [nested] }],
    ['two calls', family.write([one, two]), { calls: [one, two] }],
    ['the same call twice', family.write([one, one]), { calls: [one, one] }],
    ['four calls', family.write([one, two, nested, none]), { calls: [one, two, nested, none] }],
    ['white space around', `\n\n${family.write([one])}\n`, { calls: [one] }],
    [
      'a tool that nobody offered',
      family.write([{ name: 'unheard_of', arguments: {} }]),
      { calls: [{ name: 'unheard_of', arguments: {} }] },
    ],
    [
      'a name with dots and dashes',
      family.write([{ name: 'math.add-all', arguments: {} }]),
      { calls: [{ name: 'math.add-all', arguments: {} }] },
    ],
    [
      'a long argument',
      family.write([{ name: 'look_up', arguments: { word: 'ab '.repeat(400).trim() } }]),
      { calls: [{ name: 'look_up', arguments: { word: 'ab '.repeat(400).trim() } }] },
    ],
    [
      'many lines in an argument',
      family.write([{ name: 'look_up', arguments: { word: 'def f():\n    return "x"\n\nf()' } }]),
      { calls: [{ name: 'look_up', arguments: { word: 'def f():\n    return "x"\n\nf()' } }] },
    ],
    [
      'braces in an argument',
      family.write([{ name: 'look_up', arguments: { word: '{"name": [}' } }]),
      { calls: [{ name: 'look_up', arguments: { word: '{"name": [}' } }] },
    ],
    [
      'big and small numbers',
      family.write([{ name: 'add', arguments: { a: 123456789012, b: 1e-7 } }]),
      { calls: [{ name: 'add', arguments: { a: 123456789012, b: 1e-7 } }] },
    ],
    ['nothing at all', '', {}],
  ];
  test.each(good)('reads %s', (_, reply, expected) => {
    expect(read(reply, tools)).toEqual({ ...nothing, ...expected });
  });

  const isHarmony = name === 'gpt-oss';
  test('reads words before a call', () => {
    const before = isHarmony
      ? '<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant'
      : 'Let me see.\n';
    expect(read(before + family.write([one]), tools)).toEqual({
      ...nothing,
      content: 'Let me see.',
      calls: [one],
    });
  });

  test('reads words alone', () => {
    const reply = isHarmony ? '<|channel|>final<|message|>The answer is 4.<|return|>' : 'The answer is 4.';
    expect(read(reply, tools)).toEqual({ ...nothing, content: 'The answer is 4.' });
  });

  test('separates reasoning', () => {
    const { reasoning: marks = ['<think>\n', '\n</think>\n\n'] } = family;
    if (marks === null) return expect(read('hm')).toEqual({ ...nothing, content: 'hm' });
    const [open, close] = marks;
    expect(read(`${open}Two and two?${close}${family.write([one])}`, tools)).toEqual({
      ...nothing,
      reasoning: 'Two and two?',
      calls: [one],
    });
  });

  test('describes a malformed call', () => {
    const { calls, problems } = read(family.malformed, tools);
    expect({ calls, problems }).toEqual({ calls: [], problems: ['malformed-call'] });
  });

  test('keeps a good call beside a malformed one', () => {
    const between = isHarmony ? '<|start|>assistant' : '\n';
    expect(read(family.malformed + between + family.write([two]), tools)).toMatchObject({
      calls: [two],
      problems: ['malformed-call'],
    });
    expect(read(family.write([two]) + between + family.malformed, tools)).toMatchObject({
      calls: [two],
      problems: ['malformed-call'],
    });
  });

  test('describes a call that was cut', () => {
    const { problems } = format.parseReply(tokenizer.encode(family.unclosed), tools);
    expect(problems).toHaveLength(1);
    expect(problems[0]!.source).toContain('add');
    expect(read(family.unclosed, tools).calls).toEqual([]);
  });

  test.skipIf(!family.mark)(
    'a call whose marks are ordinary letters is not made, and that is reported',
    () => {
      const reply = family.write([one]);
      const { toolCalls, content, problems } = format.parseReply(tokenizer.encodeText(reply), tools);
      expect(toolCalls).toEqual([]);
      expect(content + problems.map(({ source }) => source).join('')).toContain(family.mark);
      if (name !== 'kimi_k3') expect(problems[0]?.message).toMatch(/spelled in ordinary letters/);
    },
  );

  test('a special token that the model writes as letters stays in an argument', () => {
    const special = tokenizer.added.tokens[0]!.text;
    const made = family.write([{ name: 'look_up', arguments: { word: 'PLACE' } }]);
    const [before, after] = made.split('PLACE');
    const ids = Int32Array.from([
      ...tokenizer.encode(before!),
      ...tokenizer.encodeText(special),
      ...tokenizer.encode(after!),
    ]);
    expect(format.parseReply(ids, tools).toolCalls[0]?.arguments).toEqual({ word: special });
  });

  test('the stop token is not part of the reply', () => {
    const stop = Int32Array.from(format.stopIds.slice(0, 1));
    const reply = isHarmony ? '<|channel|>final<|message|>Done.' : 'Done.';
    const ids = Int32Array.from([...tokenizer.encode(reply), ...stop]);
    expect(format.parseReply(ids, tools)).toMatchObject({ content: 'Done.', toolCalls: [], problems: [] });
  });

  test('every word of a reply is in its content, its reasoning, one call or one problem', () => {
    const written = [family.write([one]), family.write([two, nested]), family.malformed, family.unclosed];
    const halves = written.flatMap((each) => [each.slice(0, each.length / 2), each.slice(each.length / 2)]);
    const fragments = [...written, ...halves, ...tokenizer.added.tokens.map((token) => token.text), '\n'];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...fragments), { minLength: 1, maxLength: 5 }), (parts) => {
        const reply = parts.map((part, at) => `${part} ${word(at)} `).join('');
        const { toolCalls, ...rest } = format.parseReply(tokenizer.encode(reply), tools);
        expect(unaccounted({ ...rest, calls: toolCalls }, parts.length)).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  test('call ids count on from where they are told to', () => {
    const { toolCalls } = format.parseReply(tokenizer.encode(family.write([one, two])), tools, 5);
    if (family.writesIds) expect(toolCalls.map(({ id }) => id)).toEqual(['call_0', 'call_1']);
    else if (name !== 'kimi') expect(toolCalls.map(({ id }) => id)).toEqual(['call_5', 'call_6']);
    else expect(toolCalls.map(({ id }) => id)).toEqual(['functions.add:0', 'functions.look_up:1']);
  });

  test('a reply read token by token is the reply read at once', () => {
    const pieces = fc.constantFrom(
      family.write([one]),
      family.write([nested, two]),
      family.malformed,
      family.unclosed,
      'some words ',
      '\n',
      '<thi',
      '<think>hm</think>',
      '[',
      '{',
      'naïve 👩‍👩‍👧 ',
      ...tokenizer.added.tokens.map(({ text }) => text),
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 6 }), fc.integer({ min: 1, max: 5 }), (parts, size) => {
        const ids = tokenizer.encode(parts.join(''));
        const stream = format.streamReply(tools);
        const deltas = [];
        for (let at = 0; at < ids.length; at += size) deltas.push(stream.push(ids.slice(at, at + size)));
        deltas.push(stream.end());
        const { text: _, ...atOnce } = format.parseReply(ids, tools);
        expect(putTogether(deltas.flatMap(({ callParts }) => callParts))).toEqual(atOnce.toolCalls);
        expect({
          content: deltas.map(({ content }) => content).join(''),
          reasoning: deltas.map(({ reasoning }) => reasoning).join(''),
          toolCalls: deltas.flatMap(({ toolCalls }) => toolCalls),
          problems: deltas.flatMap(({ problems }) => problems),
        }).toEqual(atOnce);
      }),
      { numRuns: 60 },
    );
  });

  test('the arguments of a call are told while they are written, unless the family writes no JSON', () => {
    const given = { word: 'a naïve 👩‍👩‍👧 "word",\n\ttwice', list: [1, -2.5, { deep: true }], n: 7 };
    const made = { name: 'look_up', arguments: given };
    const stream = format.streamReply(schemaFor([made]));
    const ids = tokenizer.encode(family.write([made]));
    const parts = Array.from(ids, (id) => stream.push(Int32Array.of(id)).callParts).flat();
    parts.push(...stream.end().callParts);
    expect(parts.length > 10 ? 'piece by piece' : 'whole').toBe(
      TOLD_WHOLE.has(name) ? 'whole' : 'piece by piece',
    );
    if (!family.valuesAsText)
      expect(parts.map((part) => part.arguments).join('')).toBe(JSON.stringify(given));
  });
});

/** Families whose arguments are no JSON, or that write a call's name or id behind them: a call is told when it is complete. */
const TOLD_WHOLE = new Set(
  'pythonic mistral glm minimax seed deepseek_v4 gemma4 smollm3 apertus step3 dots minicpm5 functiongemma poolside_v1 hy_v3 olmo3 kimi_k3 minimax_m3 qwen3_coder'.split(
    ' ',
  ),
);

/** The calls that their pieces make; a broken one is none, and its arguments are no JSON. */
function putTogether(parts: readonly CallPart[]) {
  const calls = new Map<number, { id: string; name: string; json: string; isBroken: boolean }>();
  for (const { index, isFirst, isBroken = false, id, name, arguments: more } of parts) {
    expect(calls.has(index)).toBe(!isFirst);
    const json = (calls.get(index)?.json ?? '') + more;
    calls.set(index, { id, name, json, isBroken });
  }
  expect([...calls.keys()]).toEqual([...calls.keys()].sort((a, b) => a - b));
  return [...calls.values()].flatMap(({ id, name, json, isBroken }) => {
    if (!isBroken) return [{ id, name, arguments: JSON.parse(json) as unknown }];
    expect(() => JSON.parse(json)).toThrow();
    return [];
  });
}

/** What follows the calls in each family's rendering: its closing token, or the next message. */
const ENDS = [
  '<|im_end|>',
  '<|eot_id|>',
  '<|eot|>',
  '</s>',
  '<｜end▁of▁sentence｜>',
  '<|observation|>',
  '<|start|>functions',
  '[e~[',
  '<seed:eos>',
  '<turn|>',
];

test('calls one a line between the marks are read', () => {
  const { tokenizer, format } = familyFormat(FAMILIES.find((family) => family.format === 'jamba')!);
  const reply = '<tool_calls>\n{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {}}\n</tool_calls>';
  const { toolCalls, problems } = format.parseReply(tokenizer.encode(reply), []);
  expect([toolCalls.map(({ name }) => name), problems]).toEqual([['f', 'g'], []]);
});

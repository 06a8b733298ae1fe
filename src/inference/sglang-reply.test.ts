import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Chunk, readReply, replyOfChunk } from './sglang-reply.ts';

const parse = (text: string) => JSON.parse(text) as Chunk;
const written = (text: string, tokens: readonly (readonly [number, number])[], more: object = {}) => ({
  text,
  output_ids: tokens.map(([, id]) => id),
  meta_info: {
    id: 'a',
    finish_reason: { type: 'stop', matched: 2 },
    prompt_tokens: 5,
    output_token_logprobs: tokens.map(([logprob, id]) => [logprob, id, null]),
    ...more,
  },
});

test('ids and log-probs are those that JSON.parse reads, whatever the text beside them', () => {
  const id = fc.integer({ min: 0, max: 2 ** 31 - 1 });
  const logprob = fc.oneof(
    fc.float({ min: -100, max: 0, noNaN: true }),
    fc.constantFrom(0, -1e-30, -1.5e-7, -12),
  );
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('"output_ids":[', ']"output_token_logprobs":['),
  );
  fc.assert(
    fc.property(text, fc.array(fc.tuple(logprob, id), { maxLength: 40 }), (said, tokens) => {
      const json = JSON.stringify(written(said, tokens));
      const read = readReply(Buffer.from(json), parse)!;
      const expected = replyOfChunk(parse(json));
      expect([...Int32Array.from(read.ids)]).toEqual(expected.ids);
      expect(read.logprobs).toEqual(Float32Array.from(expected.logprobs as number[]));
      expect({ ...read.meta, output_token_logprobs: [] }).toEqual({
        ...expected.meta,
        output_token_logprobs: [],
      });
    }),
    { numRuns: 500 },
  );
});

test('what is written otherwise is left to JSON.parse', () => {
  const one = written('', [[-0.5, 7]]);
  const changed = (meta: object, top: object = {}) =>
    readReply(
      Buffer.from(JSON.stringify({ ...one, ...top, meta_info: { ...one.meta_info, ...meta } })),
      parse,
    );
  expect(changed({})).toBeDefined();
  expect(changed({ output_token_logprobs: [[-0.5, 7, ' a']] })).toBeUndefined();
  expect(changed({ output_token_logprobs: [[null, 7, null]] })).toBeUndefined();
  expect(changed({ output_token_logprobs: [[-0.5, 8, null]] })).toBeUndefined();
  expect(changed({ output_token_logprobs: [] })).toBeUndefined();
  expect(changed({}, { output_ids: [7, 8] })).toBeUndefined();
  expect(changed({}, { output_ids: [-7] })).toBeUndefined();
  expect(changed({}, { output_ids: [7.5] })).toBeUndefined();
  expect(readReply(Buffer.from(JSON.stringify(one, null, 1)), parse)).toBeUndefined();
  expect(readReply(Buffer.from('{"output_ids":[1,2'), parse)).toBeUndefined();
  expect(readReply(Buffer.from('<html>'), parse)).toBeUndefined();
});

test('bytes cut anywhere are refused, not read as less', () => {
  const bytes = Buffer.from(
    JSON.stringify(
      written(
        'a',
        [
          [-0.5, 7],
          [-0.25, 8],
        ],
        { cached_tokens: 1 },
      ),
    ),
  );
  for (let end = 0; end < bytes.length; end++) {
    const cut = bytes.subarray(0, end);
    expect(() => readReply(cut, parse) ?? replyOfChunk(parse(cut.toString()))).toThrow();
  }
});

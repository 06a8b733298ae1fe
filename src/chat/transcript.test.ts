import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EngineError } from '../errors.ts';
import type { ImageRef, Segment } from '../types.ts';
import { Transcript } from './transcript.ts';

const ids = (...values: number[]) => Int32Array.from(values);
const context = (...values: number[]) => ({ ids: ids(...values), images: [] });
const reply = (values: number[], version = 0) => ({
  ids: ids(...values),
  logprobs: Float32Array.from(values, (value) => -value / 8),
  versions: [{ from: 0, version }],
});
const plain = (segment: Segment) =>
  Object.fromEntries(Object.entries(segment).map(([key, column]) => [key, [...column]]));

test('a trajectory of two turns has the columns that types.ts draws', () => {
  const transcript = new Transcript(context(1, 2, 3));
  const first = transcript.appendReply(reply([4, 5], 7));
  transcript.appendObservation(context(6, 7));
  transcript.appendReply(reply([8], 9));
  expect(first).toEqual({ segment: 0, start: 3, end: 5 });
  expect(transcript.segments().map(plain)).toEqual([
    {
      ids: [1, 2, 3, 4, 5, 6, 7, 8],
      sampled: [0, 0, 0, 1, 1, 0, 0, 1],
      trained: [0, 0, 0, 1, 1, 0, 0, 1],
      logprobs: [0, 0, 0, -0.5, -0.625, 0, 0, -1],
      versions: [-1, -1, -1, 7, 7, -1, -1, 9],
      turns: [0, 0, 0, 1, 1, 1, 1, 2],
      images: [],
    },
  ]);
});

test('a reply sampled by two versions carries both', () => {
  const transcript = new Transcript(context(1));
  transcript.appendReply({
    ...reply([2, 3, 4, 5]),
    versions: [
      { from: 0, version: 3 },
      { from: 2, version: 4 },
    ],
  });
  transcript.appendObservation(context(6));
  expect([...transcript.segments()[0]!.versions]).toEqual([-1, 3, 3, 4, 4, -1]);
});

test('an excluded turn or span stays sampled and is not trained', () => {
  const transcript = new Transcript(context(1));
  transcript.appendReply(reply([2, 3]));
  const second = transcript.appendReply(reply([4, 5, 6]));
  transcript.excludeTurn(1);
  transcript.exclude({ ...second, end: second.start + 1 });
  const [segment] = transcript.segments();
  expect([...segment!.sampled]).toEqual([0, 1, 1, 1, 1, 1]);
  expect([...segment!.trained]).toEqual([0, 0, 0, 0, 1, 1]);
  expect([...segment!.logprobs]).toEqual([0, -0.25, -0.375, -0.5, -0.625, -0.75]);
  expect(() => transcript.exclude({ segment: 0, start: 5, end: 9 })).toThrow(RangeError);
});

test('a sampled token is trained only in the segment in which it was sampled', () => {
  const transcript = new Transcript(context(1));
  transcript.appendReply(reply([2, 3]));
  transcript.newSegment(context(1, 2, 9));
  transcript.appendReply(reply([4]));
  const [before, after] = transcript.segments();
  expect([...before!.trained]).toEqual([0, 1, 1]);
  expect([...after!.trained]).toEqual([0, 0, 0, 1]);
  expect([...after!.turns]).toEqual([0, 0, 0, 2]);
  expect(transcript.sampledTokens).toBe(3);
});

test('a stop token that cannot stay in the context stays trained where it was sampled', () => {
  const transcript = new Transcript(context(1));
  transcript.appendReply(reply([2, 99]));
  transcript.appendObservation({ ...context(98, 5), drop: 1 });
  const [before, after] = transcript.segments().map(plain);
  expect(before).toMatchObject({ ids: [1, 2, 99], trained: [0, 1, 1] });
  expect(after).toMatchObject({ ids: [1, 2, 98, 5], sampled: [0, 0, 0, 0] });
});

test('an image counts as many tokens as the engine expands it to', () => {
  const image: ImageRef = { blob: 'a', mime: 'image/png', width: 28, height: 28, tokens: 16 };
  const transcript = new Transcript({ ids: ids(1, 50, 2), images: [{ at: 1, image }] });
  transcript.appendReply(reply([3]));
  transcript.appendObservation({ ids: ids(50), images: [{ at: 0, image }] });
  expect(transcript.length).toBe(5);
  expect(transcript.expandedLength).toBe(35);
  expect(transcript.images).toEqual([image, image]);
  expect(transcript.segments()[0]!.images.map(({ at }) => at)).toEqual([1, 4]);
});

test('a server that contradicts itself is refused', () => {
  const transcript = new Transcript(context(1));
  expect(() => transcript.appendReply({ ...reply([1, 2]), logprobs: new Float32Array(1) })).toThrow(
    'the server returned 2 ids but 1 log-probs',
  );
  expect(() => transcript.appendReply({ ...reply([1]), logprobs: Float32Array.of(Number.NaN) })).toThrow(
    EngineError,
  );
  expect(() => transcript.appendReply({ ...reply([1]), versions: [] })).toThrow('which version');
  expect(transcript.length).toBe(1);
});

test('an empty reply is a turn without tokens', () => {
  const transcript = new Transcript(context(1));
  expect(transcript.appendReply({ ...reply([]), versions: [] })).toEqual({ segment: 0, start: 1, end: 1 });
  expect(transcript.turn).toBe(1);
});

test('any sequence of appends equals plain array concatenation, and snapshots never change', () => {
  const piece = fc.record({ sampled: fc.boolean(), ids: fc.array(fc.nat(500), { maxLength: 300 }) });
  fc.assert(
    fc.property(fc.array(fc.nat(9)), fc.array(piece, { maxLength: 12 }), (prompt, pieces) => {
      const transcript = new Transcript(context(...prompt));
      const expected = prompt.map((id) => ({ id, sampled: 0, turn: 0 }));
      let turn = 0;
      const snapshots: [Segment, number[]][] = [];
      for (const { sampled, ids: values } of pieces) {
        if (sampled) turn++;
        expected.push(...values.map((id) => ({ id, sampled: Number(sampled), turn })));
        if (sampled) transcript.appendReply(reply(values));
        else transcript.appendObservation(context(...values));
        snapshots.push([transcript.segments()[0]!, expected.map(({ id }) => id)]);
      }
      const [segment] = transcript.segments();
      expect([...segment!.ids]).toEqual(expected.map(({ id }) => id));
      expect([...transcript.ids]).toEqual(expected.map(({ id }) => id));
      expect([...segment!.sampled]).toEqual(expected.map(({ sampled }) => sampled));
      expect([...segment!.turns]).toEqual(expected.map(({ turn }) => turn));
      for (const [snapshot, then] of snapshots) expect([...snapshot.ids]).toEqual(then);
    }),
    { numRuns: 60 },
  );
});

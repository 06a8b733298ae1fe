import { expect, test } from 'vitest';
import type { Segment, Trajectory } from '../types.ts';
import { numberOfTurns, promptTokens, responseTokens } from './trajectory-lengths.ts';

const segment = (prompt: number, reply: number): Segment => {
  const length = prompt + reply;
  return {
    ids: new Int32Array(length),
    sampled: new Uint8Array(length).fill(1, prompt),
    trained: new Uint8Array(length),
    logprobs: new Float32Array(length),
    versions: new Int32Array(length),
    turns: new Int32Array(length),
    images: [],
  };
};

test('the prompt is what the first reply follows, and every segment has its own', () => {
  const segments = [segment(100, 10), segment(120, 10)];
  expect(promptTokens({ segments })).toBe(100);
  expect(responseTokens({ segments })).toBe(20);
  expect(promptTokens({ segments: [] })).toBe(0);
  expect(responseTokens({ segments: [segment(7, 0)] })).toBe(0);
});

test('turns are counted as verl does: the prompt, replies, and answers between them', () => {
  const turns = (count: number) =>
    numberOfTurns({ turns: Array.from({ length: count }) as unknown as Trajectory['turns'] });
  expect([turns(0), turns(1), turns(2), turns(3)]).toEqual([1, 2, 4, 6]);
});

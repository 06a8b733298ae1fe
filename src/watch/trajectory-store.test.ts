import { mkdtemp, readFile, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Group, Segment, Trajectory } from '../types.ts';
import { listSteps, readStepIndex, readTrajectory, writeTrajectories } from './trajectory-store.ts';

const segmentOf = (
  tokens: { id: number; sampled: boolean; trained: boolean; logprob: number }[],
): Segment => ({
  ids: Int32Array.from(tokens, (token) => token.id),
  sampled: Uint8Array.from(tokens, (token) => Number(token.sampled)),
  trained: Uint8Array.from(tokens, (token) => Number(token.sampled && token.trained)),
  logprobs: Float32Array.from(tokens, (token) => token.logprob),
  versions: Int32Array.from(tokens, (token) => (token.sampled ? 3 : -1)),
  turns: Int32Array.from(tokens, (_, at) => at),
  images: [],
});

const groupOf = (segments: Segment[], text: string, attempts = 1): Group => {
  const task = { question: text };
  return {
    taskIndex: 7,
    task,
    attempts: Array.from({ length: attempts }, (_, attempt) => {
      const trajectory: Trajectory = {
        id: `train/5/7/${attempt}`,
        step: 5,
        taskIndex: 7,
        task,
        attempt,
        segments,
        messages: [{ role: 'user', content: text }],
        chats: [],
        turns: [],
        text,
        end: { kind: 'completed' },
        spans: [],
        extra: {},
      };
      return { trajectory, rewards: { correct: 1 }, reward: attempt === 0 ? 1 : undefined };
    }),
  };
};

const token = fc.record({
  id: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
  sampled: fc.boolean(),
  trained: fc.boolean(),
  logprob: fc.float({ noNaN: true }),
});

test('every column of every segment comes back as it was written, whatever the text', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-store-'));
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(token, { maxLength: 9 }), { maxLength: 3 }),
      fc.string({ unit: 'grapheme' }),
      async (tokens, text) => {
        const segments = tokens.map(segmentOf);
        await writeTrajectories(directory, 5, [groupOf(segments, text, 2)], (_, position) => ({
          advantages: segments[position]!.logprobs,
        }));
        const index = await readStepIndex(directory, 5);
        expect(index.trajectories.map(({ reward }) => reward)).toEqual([1, null]);
        for (const entry of index.trajectories) {
          const { trajectory, segments: stored } = await readTrajectory(directory, 5, entry);
          expect(trajectory.text).toBe(text);
          expect(stored.map(({ ids }) => [...ids])).toEqual(segments.map(({ ids }) => [...ids]));
          expect(stored.map(({ trained }) => [...trained])).toEqual(
            segments.map(({ trained }) => [...trained]),
          );
          expect(stored.map(({ sampled }) => [...sampled])).toEqual(
            segments.map(({ sampled }) => [...sampled]),
          );
          expect(stored.map(({ advantages }) => [...advantages])).toEqual(
            segments.map(({ logprobs }) => [...logprobs]),
          );
          expect(stored.map(({ turns }) => [...turns])).toEqual(segments.map(({ turns }) => [...turns]));
          expect(stored.every(({ entropies }) => entropies.every(Number.isNaN))).toBe(true);
        }
      },
    ),
    { numRuns: 25 },
  );
  expect(await listSteps(directory)).toEqual([5]);
});

test('a token file that was cut is named, not read past its end', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-store-'));
  const segment = segmentOf([{ id: 1, sampled: true, trained: true, logprob: -1 }]);
  await writeTrajectories(directory, 1, [groupOf([segment], 'x')]);
  const path = join(directory, 'trajectories', 'step_1.tokens');
  const whole = (await readFile(path)).length;
  await truncate(path, whole - 4);
  const [entry] = (await readStepIndex(directory, 1)).trajectories;
  await expect(readTrajectory(directory, 1, entry!)).rejects.toThrow(/step_1\.tokens ends at byte/);
});

test('what JSON cannot write is written as text', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-store-'));
  const group = groupOf([segmentOf([])], 'text', 1);
  const loop: Record<string, unknown> = { big: 10n, twice: [{ a: 1 }] };
  loop['self'] = loop;
  const attempts = group.attempts.map((scored) => ({
    ...scored,
    trajectory: { ...scored.trajectory, extra: { loop, again: loop['twice'] } },
  }));
  await writeTrajectories(directory, 1, [{ ...group, attempts }]);
  const { trajectories } = await readStepIndex(directory, 1);
  const { trajectory } = await readTrajectory(directory, 1, trajectories[0]!);
  expect(trajectory.extra).toEqual({
    loop: { big: '10', twice: [{ a: 1 }], self: '[circular]' },
    again: [{ a: 1 }],
  });
});

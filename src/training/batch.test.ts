import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scoredAttempt, tabularGroups, tabularPolicy } from '../../testing/tabular-task.ts';
import type { End, Group, Scored, Segment } from '../types.ts';
import { dapo, grpo } from './algorithms.ts';
import { createBatch } from './batch.ts';
import { assignCredit } from './credit.ts';

const groups = () => tabularGroups(tabularPolicy(), { seed: 1 });
const options = { step: 1, version: 0, algorithm: grpo() };

const withEnd = (scored: Scored, end: End, isScored = true): Scored => ({
  ...scored,
  trajectory: { ...scored.trajectory, end },
  reward: isScored ? scored.reward : undefined,
});
const withAttempt = (list: readonly Group[], change: (scored: Scored) => Scored): Group[] =>
  list.map((group, i) => ({
    ...group,
    attempts: group.attempts.map((attempt, j) => (i === 0 && j === 0 ? change(attempt) : attempt)),
  }));
const advantagesByTrajectory = (list: readonly Group[], algorithm = grpo()) => {
  const batch = createBatch(list, { ...options, algorithm });
  const { advantages } = assignCredit(batch, algorithm, {});
  return new Map(
    batch.sequences.map((sequence, i) => [batch.trajectories[sequence.trajectory]!.id, advantages[i]!]),
  );
};

test('a failed attempt is in no statistics: the others compare as if it had never been', () => {
  const failed = { kind: 'failed', boundary: 'infrastructure', message: 'server gone' } as const;
  const list = withAttempt(groups(), (scored) => withEnd(scored, failed, false));
  const batch = createBatch(list, options);
  expect(batch.leftOut).toEqual([
    { id: '1-0-0', taskIndex: 0, attempt: 0, why: 'failed', message: 'infrastructure: server gone' },
  ]);
  const smaller = groups().map((group, i) => ({ ...group, attempts: group.attempts.slice(i === 0 ? 1 : 0) }));
  expect(advantagesByTrajectory(list)).toEqual(advantagesByTrajectory(smaller));
});

test('a truncated attempt is trained, or only counted, or left out', () => {
  const list = withAttempt(groups(), (scored) => withEnd(scored, { kind: 'truncated', why: 'tokens' }));
  const rows = (truncated: 'train' | 'mask' | 'leave-out') => {
    const batch = createBatch(list, { ...options, algorithm: grpo({ truncated }) });
    return [batch.trajectories.length, batch.sequences.length];
  };
  expect(rows('train')).toEqual([12, 12]);
  expect(rows('mask')).toEqual([12, 11]);
  expect(rows('leave-out')).toEqual([11, 11]);
  const masked = advantagesByTrajectory(list, grpo({ truncated: 'mask' }));
  expect(masked.has('1-0-0')).toBe(false);
  expect(masked.get('1-0-1')).toEqual(advantagesByTrajectory(groups()).get('1-0-1'));
});

test('a cancelled attempt counts if it was scored', () => {
  const cancelled = { kind: 'cancelled', why: 'straggler' } as const;
  const scored = withAttempt(groups(), (attempt) => withEnd(attempt, cancelled));
  expect(createBatch(scored, options).trajectories).toHaveLength(12);
  const unscored = withAttempt(groups(), (attempt) => withEnd(attempt, cancelled, false));
  expect(createBatch(unscored, options).leftOut[0]).toMatchObject({ why: 'cancelled', message: 'straggler' });
});

test('a group of which nothing is left vanishes', () => {
  const list = groups();
  const empty = {
    ...list[0]!,
    attempts: list[0]!.attempts.map((attempt) => ({ ...attempt, reward: undefined })),
  };
  const batch = createBatch([empty, ...list.slice(1)], options);
  expect(batch.groups).toBe(2);
  expect(new Set(batch.trajectories.map(({ group }) => group))).toEqual(new Set([0, 1]));
});

test('long trajectories pay, and groups see what is left', () => {
  const overlong = { maxTokens: 12, bufferTokens: 8, penalty: 0.5 };
  const batch = createBatch(groups(), { ...options, algorithm: dapo({ overlong }) });
  for (const { score, reward, responseTokens } of batch.trajectories) {
    expect(reward).toBeCloseTo(score - 0.5 * Math.max(0, (responseTokens - 4) / 8), 9);
  }
});

test('turn rewards lie on the last trained token of their turn; of a turn not trained, on the one before', () => {
  const segment = (trained: number[]): Segment => ({
    ids: Int32Array.from(trained.keys()),
    sampled: Uint8Array.from([0, 0, 1, 1, 0, 1, 1]),
    trained: Uint8Array.from(trained),
    logprobs: new Float32Array(7),
    versions: new Int32Array(7),
    turns: Int32Array.from([0, 0, 1, 1, 1, 2, 2]),
    images: [],
  });
  const turns = [
    { segment: 0, start: 2, end: 4, reward: 0.25 },
    { segment: 0, start: 5, end: 7, reward: 0.5 },
  ];
  const placed = (trained: number[]) => {
    const scored = scoredAttempt(
      { taskIndex: 0, attempt: 0, step: 1, segments: [segment(trained)] },
      1,
      turns,
    );
    return createBatch([{ taskIndex: 0, task: {}, attempts: [scored] }], options).trajectories[0]!
      .turnRewards;
  };
  expect(placed([0, 0, 1, 1, 0, 1, 1])).toEqual([
    { sequence: 0, at: 3, reward: 0.25 },
    { sequence: 0, at: 6, reward: 0.5 },
  ]);
  expect(placed([0, 0, 1, 0, 0, 0, 0])).toEqual([
    { sequence: 0, at: 2, reward: 0.25 },
    { sequence: 0, at: 2, reward: 0.5 },
  ]);
  expect(placed([0, 0, 0, 0, 0, 0, 1])).toEqual([{ sequence: 0, at: 6, reward: 0.5 }]);
});

const randomSegment = fc
  .array(fc.record({ sampled: fc.boolean(), excluded: fc.boolean() }), { minLength: 0, maxLength: 12 })
  .map((tokens): Segment => {
    const sampled = Uint8Array.from(tokens, (token) => (token.sampled ? 1 : 0));
    return {
      ids: Int32Array.from(tokens.keys()),
      sampled,
      trained: Uint8Array.from(tokens, (token) => (token.sampled && !token.excluded ? 1 : 0)),
      logprobs: new Float32Array(tokens.length),
      versions: new Int32Array(tokens.length),
      turns: Int32Array.from(sampled),
      images: [],
    };
  });

test('whatever the segments, the reward lies on the last trained token and nothing else is trained', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(randomSegment, { minLength: 1, maxLength: 3 }), { minLength: 2, maxLength: 5 }),
      (attempts) => {
        const group: Group = {
          taskIndex: 0,
          task: {},
          attempts: attempts.map((segments, attempt) =>
            scoredAttempt({ taskIndex: 0, attempt, step: 1, segments }, attempt),
          ),
        };
        const batch = createBatch([group], options);
        const trained = attempts
          .flat()
          .map((segment) => segment.trained.slice(1).reduce((sum, mark) => sum + mark, 0));
        const total = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
        expect(total(batch.sequences.map(({ positions }) => positions.length))).toBe(total(trained));
        expect(batch.trajectories).toHaveLength(attempts.length);
        for (const sequence of batch.sequences) {
          expect(sequence.positions.length).toBeGreaterThan(0);
          expect(sequence.trained[0]).toBe(0);
          for (const at of sequence.positions) expect(sequence.trained[at]).toBe(1);
        }
        const estimated = assignCredit(
          batch,
          { ...grpo(), advantage: { kind: 'reinforce++', discount: 1 } },
          {},
        ).returns!;
        for (const { sequences, reward } of batch.trajectories) {
          const last = sequences.at(-1);
          if (last !== undefined) expect(estimated[last]!.at(-1)).toBe(reward);
        }
      },
    ),
  );
});

test('group-relative advantages do not change when a constant is added to the rewards', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: -2, max: 2, noNaN: true }), { minLength: 12, maxLength: 12 }),
      fc.double({ min: -3, max: 3, noNaN: true }),
      (rewards, shift) => {
        const shifted = (by: number) =>
          groups().map((group, i) => ({
            ...group,
            attempts: group.attempts.map((attempt, j) => ({ ...attempt, reward: rewards[4 * i + j]! + by })),
          }));
        const [plain, moved] = [0, shift].map((by) =>
          advantagesByTrajectory(shifted(by), grpo({ normalizeByStd: false })),
        );
        for (const [id, list] of plain!) expect(moved!.get(id)![0]).toBeCloseTo(list[0]!, 9);
      },
    ),
    { numRuns: 30 },
  );
});

test('a sub-agent with a reward of its own is compared with itself in the other attempts', () => {
  // Four attempts of two segments: the main agent's, then the planner's. By hand: GRPO's advantage is (r − mean) / sd, sd of n − 1.
  const [group] = groups() as [Group];
  const main = [1, 0, 0, 0];
  const planner = [0, 0, 2, 2];
  const attempts = group.attempts.slice(0, 4).map((scored, at) => {
    const [segment] = scored.trajectory.segments as [Segment];
    const segments = [segment, { ...segment, agent: 'planner' }];
    return {
      ...scored,
      trajectory: { ...scored.trajectory, segments, agentRewards: { planner: planner[at]! } },
      reward: main[at]!,
      rewards: { right: main[at]! },
    };
  });
  const algorithm = grpo();
  const batch = createBatch([{ ...group, attempts }], { ...options, algorithm });
  expect(batch.groups).toBe(2);
  expect(batch.trajectories.map(({ agent, group: number, reward }) => [agent, number, reward])).toEqual(
    [0, 1, 2, 3].flatMap((at) => [
      [undefined, 0, main[at]],
      ['planner', 1, planner[at]],
    ]),
  );
  const { advantages } = assignCredit(batch, algorithm, {});
  const of = (number: number) =>
    batch.sequences.flatMap((sequence, at) => (sequence.segment === number ? advantages[at]![0]! : []));
  for (const [at, advantage] of of(0).entries()) expect(advantage).toBeCloseTo(at === 0 ? 1.5 : -0.5, 4);
  for (const [at, advantage] of of(1).entries())
    expect(advantage).toBeCloseTo((at < 2 ? -1 : 1) / Math.sqrt(4 / 3), 4);
});

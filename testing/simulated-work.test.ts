import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Group, Segment, Trajectory } from '../src/types.ts';
import { writeTrajectories } from '../src/watch/trajectory-store.ts';
import { simulatedEngine } from './simulated-engine.ts';
import {
  drawTrajectory,
  playTrajectory,
  recordedTrajectories,
  replyLengths,
  type SimulatedShape,
  type SimulatedTrajectory,
} from './simulated-work.ts';
import { virtualClock } from './virtual-clock.ts';

const SHAPE: SimulatedShape = {
  promptTokens: { median: 100, sigma: 0.3 },
  turns: 4,
  replyTokens: { median: 200, sigma: 1, most: 4000 },
  toolMs: { median: 500, sigma: 0.8 },
  resultTokens: { median: 50, sigma: 0.5 },
  sharedByTask: 0.5,
};
const HARDWARE = {
  stepMs: 10,
  sequenceMs: 0,
  contextMs: 0,
  prefillMs: 1,
  maxBatch: 8,
  chunkTokens: 1000,
  kvTokens: 10_000,
  prefixCache: true,
  blockTokens: 1,
};
const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;

test('lengths have the median and spread they were given, and attempts at a task the share in common', () => {
  const tasks = Array.from({ length: 2000 }, (_, task) =>
    [0, 1].map((attempt) => drawTrajectory(SHAPE, { seed: 3, task, attempt })),
  );
  const logs = tasks.map((pair) => pair.map(({ turns }) => Math.log(turns[0]!.replyTokens)));
  const all = logs.flat();
  const middle = mean(all);
  const variance = mean(all.map((log) => (log - middle) ** 2));
  const covariance = mean(logs.map(([a, b]) => (a! - middle) * (b! - middle)));
  expect(Math.exp(middle)).toBeGreaterThan(190);
  expect(Math.exp(middle)).toBeLessThan(210);
  expect(variance).toBeGreaterThan(0.9); // 1, but for those cut at 4000
  expect(variance).toBeLessThan(1.1);
  expect(covariance / variance).toBeGreaterThan(0.44);
  expect(covariance / variance).toBeLessThan(0.56);
  expect(tasks[5]![1]).toEqual(drawTrajectory(SHAPE, { seed: 3, task: 5, attempt: 1 }));
  expect(tasks[5]![0]!.promptTokens).toBe(tasks[5]![1]!.promptTokens);
});

test('a trajectory ends where its tokens do', () => {
  for (let task = 0; task < 200; task++) {
    const given = { seed: 5, task, attempt: 0 };
    const free = drawTrajectory(SHAPE, given).turns;
    const cut = drawTrajectory({ ...SHAPE, tokensPerTrajectory: 500 }, given).turns;
    const total = (turns: typeof free) =>
      turns.reduce((sum, { replyTokens, resultTokens }) => sum + replyTokens + resultTokens, 0);
    expect(total(cut)).toBeLessThanOrEqual(500);
    if (total(free) <= 500) expect(cut).toEqual(free);
    expect(cut.at(-1)).toMatchObject({ toolMs: 0, resultTokens: 0 });
  }
});

const PLAN: SimulatedTrajectory = {
  id: 't',
  task: 0,
  attempt: 0,
  promptTokens: 30,
  turns: [
    { replyTokens: 5, toolMs: 1000, resultTokens: 7 },
    { replyTokens: 3, toolMs: 0, resultTokens: 0 },
  ],
};

test('a plan is played turn by turn: replies of its lengths, its tools, then only what is new is computed', async () => {
  const clock = virtualClock();
  const server = simulatedEngine({ clock, hardware: HARDWARE, replyTokens: replyLengths(() => PLAN) });
  const played = await playTrajectory(PLAN, { server, clock, seed: 1 });
  // 30 prompt tokens and 5 steps: 80. The tool: 1000. The last token of the reply and 7 more: 8 + 3 steps: 38.
  expect(played).toMatchObject({ began: 0, ended: 1118, generateMs: 118, toolMs: 1000, sampledTokens: 8 });
  expect(server.statistics()).toMatchObject({ computedPromptTokens: 38, cachedPromptTokens: 34 });
});

test('a reply cut by a pause is continued to the length it would have had', async () => {
  const clock = virtualClock();
  const server = simulatedEngine({ clock, hardware: HARDWARE, replyTokens: replyLengths(() => PLAN) });
  clock.timer(65, () => {
    void server.pause('abort');
    void server.update({ kind: 'disk', version: 3, path: '' });
    void server.resume();
  });
  const played = await playTrajectory(PLAN, { server, clock, seed: 1 });
  expect(played).toMatchObject({ sampledTokens: 8, versions: [0, 3] });
});

test('a recorded run gives its own lengths and tool times', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rollcall-recorded-'));
  try {
    await writeTrajectories(directory, 1, [recorded()]);
    const { trajectories, leftOut } = await recordedTrajectories(directory);
    expect(leftOut).toBe(1);
    expect(trajectories).toEqual([{ ...PLAN, id: 'train/step-1/task-4/attempt-0', task: 4 }]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

/** One attempt as the plan above has it, and one without a reply. */
function recorded(): Group {
  const turn = { finish: 'stop', toolCalls: [], toolRuns: [], problems: [] } as const;
  const base: Trajectory = {
    id: 'train/step-1/task-4/attempt-0',
    step: 1,
    taskIndex: 4,
    task: {},
    attempt: 0,
    segments: [segment(45)],
    messages: [],
    chats: [],
    turns: [
      { ...turn, segment: 0, start: 30, end: 35 },
      { ...turn, segment: 0, start: 42, end: 45 },
    ],
    text: '',
    end: { kind: 'completed' },
    spans: [
      { kind: 'generate', name: 'generate', turn: 1, start: 0, end: 80 },
      { kind: 'tool', name: 'quick', turn: 1, start: 80, end: 90 },
      { kind: 'tool', name: 'slow', turn: 1, start: 80, end: 1080 },
    ],
    extra: {},
  };
  const silent = { ...base, id: 'silent', attempt: 1, turns: [], spans: [] };
  const attempts = [base, silent].map((trajectory) => ({ trajectory, rewards: {}, reward: 1 }));
  return { taskIndex: 4, task: {}, attempts };
}

function segment(length: number): Segment {
  return {
    ids: new Int32Array(length),
    sampled: new Uint8Array(length),
    trained: new Uint8Array(length),
    logprobs: new Float32Array(length),
    versions: new Int32Array(length),
    turns: new Int32Array(length),
    images: [],
  };
}

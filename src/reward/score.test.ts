import { expect, test } from 'vitest';
import { virtualClock } from '../../testing/virtual-clock.ts';
import { ConfigError, RewardError } from '../errors.ts';
import type { Trajectory } from '../types.ts';
import { reward } from './reward.ts';
import { checkOwnRewards, checkRewards, scoreTrajectory } from './score.ts';

const trajectory: Trajectory<{ answer: string }> = {
  id: 'train/step-1/task-0/attempt-0',
  step: 1,
  taskIndex: 0,
  task: { answer: '42' },
  attempt: 0,
  segments: [],
  messages: [],
  chats: [],
  turns: [],
  text: 'so it is 42',
  end: { kind: 'completed' },
  spans: [],
  extra: {},
};

test('the reward is the weighted sum, and every part keeps its name', async () => {
  const clock = virtualClock();
  const correct = reward<{ answer: string }>('correct', ({ task, trajectory: { text } }) =>
    text.endsWith(task.answer) ? 1 : 0,
  );
  const brief = reward<{ answer: string }>('brief', async ({ trajectory: { text } }) => -text.length, {
    weight: 0.1,
  });
  const logged = reward<{ answer: string }>('logged', () => 7, { weight: 0 });
  const score = await scoreTrajectory(trajectory, [correct, brief, logged], { clock, retries: 0 });
  expect(score.rewards).toEqual({ correct: 1, brief: -11, logged: 7 });
  expect(score.reward).toBeCloseTo(-0.1);
});

test('a reward that recovers within the retries counts, one that does not is named', async () => {
  const clock = virtualClock();
  let tries = 0;
  const flaky = reward<{ answer: string }>('flaky', () => {
    if (++tries < 3) throw new Error('judge is busy');
    return 1;
  });
  expect((await scoreTrajectory(trajectory, [flaky], { clock, retries: 2 })).reward).toBe(1);
  tries = -10;
  await expect(scoreTrajectory(trajectory, [flaky], { clock, retries: 2 })).rejects.toThrow(
    new RewardError("reward 'flaky' failed on trajectory train/step-1/task-0/attempt-0: judge is busy"),
  );
});

test('what is not a finite number is refused with its value', async () => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 'one' as unknown as number]) {
    const odd = reward<{ answer: string }>('odd', () => value);
    const scoring = scoreTrajectory(trajectory, [odd], { clock: virtualClock(), retries: 0 });
    await expect(scoring).rejects.toThrow(new RegExp(`'odd' gave ${value} .* a finite number`));
  }
});

test('a reward that hangs is stopped at its time limit', async () => {
  const clock = virtualClock();
  const hangs = reward<{ answer: string }>('hangs', () => new Promise<number>(() => {}), { timeoutMs: 500 });
  await expect(scoreTrajectory(trajectory, [hangs], { clock, retries: 1 })).rejects.toThrow(
    /longer than 500 ms/,
  );
  expect(clock.now()).toBe(500 + 100 + 500);
  expect(clock.pending).toBe(0);
});

test('names must differ and weights be finite', () => {
  const one = reward('one', () => 1);
  expect(() => checkRewards([one, one])).toThrow(ConfigError);
  expect(() => checkRewards([reward('heavy', () => 1, { weight: Number.NaN })])).toThrow(/weight NaN/);
});

test('rewards of turns and tools, and the sum of all, must be finite too', async () => {
  const toolRun = {
    call: { id: '1', name: 'search', arguments: {} },
    result: '',
    milliseconds: 1,
    reward: Number.NaN,
  };
  const turn = { segment: 0, start: 0, end: 1, finish: 'stop', toolCalls: [], problems: [] } as const;
  expect(() => checkOwnRewards({ ...trajectory, turns: [{ ...turn, toolRuns: [toolRun] }] })).toThrow(
    "reward 'search' gave NaN for trajectory train/step-1/task-0/attempt-0; a reward is a finite number",
  );
  expect(() =>
    checkOwnRewards({ ...trajectory, turns: [{ ...turn, toolRuns: [], reward: Number.NEGATIVE_INFINITY }] }),
  ).toThrow("reward 'turn' gave -Infinity");
  checkOwnRewards({ ...trajectory, turns: [{ ...turn, toolRuns: [{ ...toolRun, reward: 1 }] }] });
  const huge = reward<{ answer: string }>('huge', () => 1e308, { weight: 10 });
  await expect(scoreTrajectory(trajectory, [huge], { clock: virtualClock(), retries: 0 })).rejects.toThrow(
    'the rewards of trajectory train/step-1/task-0/attempt-0 add up to Infinity',
  );
});

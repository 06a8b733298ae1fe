import { expect, test } from 'vitest';
import { CASES, type ScheduleCase } from '../bench/schedule/cases.ts';
import { type Figures, longestAloneSeconds, rollOutBatch, trainInMode } from '../bench/schedule/runs.ts';
import {
  asynchronous,
  type Mode,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from '../src/modes/mode.ts';

const SMALL: ScheduleCase = { ...CASES.modes, servers: 2, tasks: 4, attempts: 4 };

const run = (mode: Mode, byBatch = false): Promise<Figures> =>
  trainInMode(SMALL, { mode, byBatch, servers: 2, steps: 4, seed: 3, trainMsPerToken: 1 });

test.each<[string, Mode, number]>([
  ['synchronous', synchronous(), 0],
  ['one step off', oneStepOff(), 1],
  ['asynchronous', asynchronous({ staleness: 2 }), 2],
  ['partial', partial({ extraTasks: 2, staleness: 3 }), 3],
  ['over-sampling', overSample({ tasks: 1, attempts: 1 }), 0],
  ['tail rounds', tailRounds({ extraTasks: 2 }), 0],
])(
  '%s trains on simulated servers, within its staleness, the same in every run',
  async (_, mode, staleness) => {
    const [first, second] = [await run(mode), await run(mode)];
    expect(second).toEqual(first);
    expect(first.tokensPerSecond).toBeGreaterThan(0);
    expect(first.maxStaleness).toBeLessThanOrEqual(staleness);
    expect(first.utilisation).toBeLessThanOrEqual(1);
  },
);

test('turns by request take less time than turns by batch, and no less than the longest trajectory', async () => {
  expect((await run(synchronous())).seconds).toBeLessThan((await run(synchronous(), true)).seconds);
  for (const seed of [1, 2, 3]) {
    const [request, batch] = [
      await rollOutBatch(SMALL, { seed }),
      await rollOutBatch(SMALL, { seed, byBatch: true }),
    ];
    expect(request.seconds).toBeLessThan(batch.seconds);
    expect(request.seconds).toBeGreaterThanOrEqual(longestAloneSeconds(SMALL, seed));
  }
});

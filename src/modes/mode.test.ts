import { expect, test } from 'vitest';
import { asynchronous, checkMode, oneStepOff, overSample, partial, synchronous, tailRounds } from './mode.ts';

test('every mode as its function makes it is accepted', () => {
  const modes = [
    synchronous(),
    oneStepOff(),
    asynchronous(),
    asynchronous({ staleness: 0 }),
    partial({ extraTasks: 4 }),
    overSample({ tasks: 2 }),
    overSample({ attempts: 2 }),
    tailRounds({ extraTasks: 1 }),
  ];
  for (const mode of modes) checkMode(mode, 4);
  expect(new Set(modes.map(({ kind }) => kind)).size).toBe(6);
});

test.each([
  [
    { ...synchronous(), staleness: 2 },
    'mode.staleness is 2, but the mode is synchronous, which does not read it',
  ],
  [{ ...asynchronous(), extraAttempts: 1 }, 'mode.extraAttempts is 1, but the mode is asynchronous'],
  [overSample({}), 'nothing is sampled over'],
  [tailRounds({ extraTasks: 0 }), 'mode.extraTasks is 0'],
  [partial({ extraTasks: 0 }), 'mode.extraTasks is 0'],
  [partial({ extraTasks: 5 }), 'only 4 could be trained in time'],
])('a mode that says nothing sensible is refused: %o', (mode, message) => {
  expect(() => checkMode(mode, 4)).toThrow(message);
});

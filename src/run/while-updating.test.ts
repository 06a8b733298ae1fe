import { expect, test } from 'vitest';
import type { ServerAbility } from '../inference/server.ts';
import { asynchronous, oneStepOff, partial, synchronous } from '../modes/mode.ts';
import { whileUpdatingIn } from './while-updating.ts';

const server = (...can: ServerAbility[]) => ({ can: new Set(can) });
const tells = server('disk', 'pauseKeep', 'versionSpans');

test('replies that may have two versions are frozen where every server says which token is of which, else cut', () => {
  for (const mode of [asynchronous({ staleness: 1 }), partial({ extraTasks: 2 })]) {
    expect(whileUpdatingIn(mode, 'wait', [tells, tells])).toBe('keep');
    expect(whileUpdatingIn(mode, 'wait', [tells, server('disk', 'pauseKeep')])).toBe('abort');
    expect(whileUpdatingIn(mode, 'wait', [server('disk', 'versionSpans')])).toBe('abort');
    expect(whileUpdatingIn(mode, 'abort', [tells])).toBe('abort');
    expect(whileUpdatingIn(mode, undefined, [tells])).toBeUndefined(); // servers in this process
  }
});

test('where a step has one version, replies end before the next comes', () => {
  for (const mode of [synchronous(), oneStepOff()])
    expect(whileUpdatingIn(mode, 'wait', [tells])).toBe('wait');
});

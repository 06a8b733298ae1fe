import { expect, test } from 'vitest';
import type { End, Group } from '../types.ts';
import { agentFailureNotices, firstStepNotices } from './first-step-notices.ts';

test('nothing to compare is said only of groups that could have been compared', () => {
  const notices = (total: number, without: number, gradient = 0) =>
    firstStepNotices(
      { 'groups/total': total, 'groups/without_spread': without, 'actor/grad_norm': gradient },
      false,
    );
  expect(notices(4, 4)).toEqual([expect.stringContaining('every group got the same reward')]);
  expect(notices(4, 3)).toEqual([]);
  expect(notices(4, 0)).toEqual([]); // one attempt per task
  expect(notices(0, 0)).toEqual([]);
  expect(notices(4, 4, 0.3)).toEqual([]); // sub-agents had rewards of their own
  expect(firstStepNotices({}, false)).toEqual([]);
});

test('tools that nobody called are named', () => {
  const metrics = { 'tools/calls': 0, 'groups/total': 1, 'groups/without_spread': 0 };
  expect(firstStepNotices(metrics, true)).toEqual([expect.stringContaining('no trajectory called a tool')]);
  expect(firstStepNotices(metrics, false)).toEqual([]);
});

test('attempts in which the agent failed are counted, with an example', () => {
  const group = (ends: readonly End[]) =>
    ({ attempts: ends.map((end, at) => ({ trajectory: { id: `attempt-${at}`, end } })) }) as unknown as Group;
  const failed: End = { kind: 'failed', boundary: 'agent', message: 'ECONNRESET' };
  const lost: End = { kind: 'failed', boundary: 'infrastructure', message: 'gone' };
  expect(agentFailureNotices([group([{ kind: 'completed' }, lost])])).toEqual([]);
  expect(agentFailureNotices([group([{ kind: 'completed' }, failed]), group([failed, lost])])).toEqual([
    expect.stringMatching(/failed in 2 of 4 attempts, .* attempt-1: ECONNRESET\./),
  ]);
});

import { expect, test } from 'vitest';
import type { Metrics, Problem, ToolRun, Trajectory, Turn } from '../types.ts';
import { rolloutMetrics } from './rollout-metrics.ts';

const problem = (kind: Problem['kind']): Problem => ({ kind, message: kind, source: 'x' });
const ran = (kind?: Problem['kind']): ToolRun => ({
  call: { id: 'a', name: 'add', arguments: {} },
  result: '3',
  milliseconds: 1,
  ...(kind ? { problem: problem(kind) } : {}),
});
const turn = (toolRuns: readonly ToolRun[], unread = 0): Turn => ({
  segment: 0,
  start: 0,
  end: 0,
  finish: 'stop',
  toolCalls: toolRuns.map(({ call }) => call),
  toolRuns,
  problems: Array.from({ length: unread }, () => problem('malformed-call')),
});
const attempt = (turns: readonly Turn[]) => {
  const trajectory: Trajectory = {
    id: 'one',
    step: 1,
    taskIndex: 0,
    task: {},
    attempt: 0,
    segments: [],
    messages: [],
    chats: [],
    turns,
    text: '',
    end: { kind: 'completed' },
    spans: [],
    extra: {},
  };
  return { trajectory, rewards: {}, reward: 0 };
};

test('every mistake is counted once under its kind, those of calls that were run too', () => {
  const attempts = [
    attempt([turn([ran(), ran('tool-threw')]), turn([ran('unknown-tool')], 1)]),
    attempt([turn([ran('tool-threw'), ran()])]),
  ];
  const metrics = rolloutMetrics([{ taskIndex: 0, task: {}, attempts }]);
  expect(Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith('tools/')))).toEqual({
    'tools/calls': 6, // five were run, one could not be read
    'tools/valid': 1 - 4 / 6,
    'tools/problems': 4,
    'tools/problems/tool-threw': 2,
    'tools/problems/unknown-tool': 1,
    'tools/problems/malformed-call': 1,
  });
});

test('attempts at a task that all got the same have no spread; a single attempt is not compared', () => {
  const group = (count: number) => ({
    taskIndex: 0,
    task: {},
    attempts: Array.from({ length: count }, () => attempt([])),
  });
  const counts = ({ 'groups/total': total, 'groups/without_spread': without }: Metrics) => [total, without];
  expect(counts(rolloutMetrics([group(2), group(3)]))).toEqual([2, 2]);
  expect(counts(rolloutMetrics([group(1), group(1)]))).toEqual([2, 0]);
});

import { expect, test } from 'vitest';
import { scoredAttempt } from '../../testing/tabular-task.ts';
import { offPolicyMetrics } from './off-policy-metrics.ts';

/** −1 is a token that was not sampled. */
const attempt = (number: number, ...versions: number[]) =>
  scoredAttempt(
    {
      taskIndex: 0,
      attempt: number,
      step: 1,
      segments: [
        {
          ids: new Int32Array(versions.length),
          sampled: Uint8Array.from(versions, (version) => (version < 0 ? 0 : 1)),
          trained: new Uint8Array(versions.length),
          logprobs: new Float32Array(versions.length),
          versions: Int32Array.from(versions),
          turns: new Int32Array(versions.length),
          images: [],
        },
      ],
    },
    1,
  );

test('staleness is counted from the newest and from the oldest token, and spans are versions', () => {
  const attempts = [attempt(0, -1, 3, 4, -1, 6), attempt(1, -1, 7), attempt(2, -1)];
  expect(offPolicyMetrics([{ taskIndex: 0, task: {}, attempts }], 7)).toEqual({
    'training/off_policy/trajectory_staleness/mean': 0.5, // 1 and 0; nothing was sampled in the third
    'training/off_policy/trajectory_staleness/max': 1,
    'training/off_policy/trajectory_staleness/min': 0,
    'training/off_policy/trajectory_staleness_worst/mean': 2, // 4 and 0
    'training/off_policy/trajectory_staleness_worst/max': 4,
    'training/off_policy/trajectory_staleness_worst/min': 0,
    'training/off_policy/trajectory_spans/mean': 2.5, // 3 … 6 and 7
    'training/off_policy/trajectory_spans/max': 4,
    'training/off_policy/trajectory_spans/min': 1,
    'fully_async/partial/total_partial_num': 1,
    'fully_async/partial/partial_ratio': 0.5,
  });
});

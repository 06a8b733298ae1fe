import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import { chatServiceOf } from '../services/service-config.ts';
import { type JudgeOptions, judgeReward, rankingReward } from './judge.ts';
import type { SharedReward, TrajectoryReward } from './reward.ts';

export const JUDGE_NAMES = ['judge', 'ranking'] as const;

export interface DescribedJudge {
  readonly name: (typeof JUDGE_NAMES)[number];
  readonly config: Readonly<Record<string, unknown>>;
  readonly directory: string;
  readonly secondsPerRequest: number;
}

/** A judge as data: `rewards.config` has its service and its `rubric`; a row's truth is shown to it. */
export function describedJudge({
  name,
  config,
  directory,
  secondsPerRequest,
}: DescribedJudge): TrajectoryReward<TaskRow> | SharedReward<TaskRow> {
  const { rubric } = config;
  if (typeof rubric !== 'string' || rubric.trim() === '') {
    throw new ConfigError(
      `rewards.name is ${name}, which needs rewards.config.rubric: what a good answer is`,
    );
  }
  const timeoutMs = 1000 * secondsPerRequest;
  const options: JudgeOptions<TaskRow> = {
    name: 'score',
    rubric,
    service: chatServiceOf(config, { who: `the ${name} (rewards.config)`, directory, timeoutMs }),
    reference: ({ groundTruth }) => (groundTruth === undefined ? undefined : String(groundTruth)),
    // Enough for the retries of the service.
    timeoutMs: Math.max(300_000, 5 * timeoutMs),
  };
  return name === 'judge' ? judgeReward(options) : rankingReward(options);
}

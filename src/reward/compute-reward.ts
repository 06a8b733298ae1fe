/** `compute_reward(data, config)` from a module of the user's: all trajectories of a step at once, in a worker thread. */
import type { TaskRow } from '../dataset/task-row.ts';
import type { Message, ToolRun, Trajectory } from '../types.ts';
import { type ComputeScoreOptions, extraInfo, openModule } from './compute-score.ts';
import { batchReward, type SharedReward } from './reward.ts';

/** What `compute_reward` is given: a list for each thing, one entry for each trajectory. */
export interface RewardData {
  readonly trajectories: readonly (readonly RewardTurn[])[];
  readonly data_source: readonly (string | undefined)[];
  readonly ground_truth: readonly unknown[];
  readonly extra_info: readonly Readonly<Record<string, unknown>>[];
}

/** A message of a trajectory, in verl's words. */
export interface RewardTurn {
  readonly role: Message['role'];
  readonly content: Message['content'];
  /** Of a tool's answer: which tool, and why its call could not be run. */
  readonly name?: string;
  readonly problem?: string;
  readonly tool_calls?: readonly { readonly name: string; readonly arguments: unknown }[];
}

export async function openComputeReward(
  options: ComputeScoreOptions & { readonly timeoutMs: number },
): Promise<{ readonly reward: SharedReward<TaskRow>; close(): Promise<void> }> {
  const module = await openModule(options, 'numbers');
  return {
    reward: batchReward<TaskRow>(
      'score',
      ({ trajectories, signal }) =>
        module.ask<readonly number[]>([rewardData(trajectories), options.config], { signal }),
      { timeoutMs: options.timeoutMs },
    ),
    close: module.close,
  };
}

export function rewardData(trajectories: readonly Trajectory<TaskRow>[]): RewardData {
  return {
    trajectories: trajectories.map(turnsOf),
    data_source: trajectories.map(({ task }) => task.dataSource),
    ground_truth: trajectories.map(({ task }) => task.groundTruth),
    extra_info: trajectories.map((trajectory) => extraInfo(trajectory.task, trajectory)),
  };
}

function turnsOf({ messages, turns }: Trajectory<TaskRow>): RewardTurn[] {
  const runs = turns.flatMap(({ toolRuns }) => toolRuns);
  return messages.map((message): RewardTurn => {
    const { role, content } = message;
    if (role === 'tool') {
      const problem = takeRun(runs, message.toolCallId)?.problem?.kind;
      return { role, content, name: message.name, ...(problem && { problem }) };
    }
    if (role !== 'assistant' || !message.toolCalls?.length) return { role, content };
    const calls = message.toolCalls.map((call) => ({ name: call.name, arguments: call.arguments }));
    return { role, content, tool_calls: calls };
  });
}

/** The next run of a call id; ids may come again in a later turn. */
function takeRun(runs: ToolRun[], id: string): ToolRun | undefined {
  const at = runs.findIndex(({ call }) => call.id === id);
  return at < 0 ? undefined : runs.splice(at, 1)[0];
}

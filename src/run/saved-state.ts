import type { SamplerState } from '../dataset/sampler.ts';
import { ConfigError } from '../errors.ts';
import type { FinishedGroup, ScheduleState, TaskOrder } from '../modes/group-source.ts';
import type { UpdateState } from '../training/update-options.ts';
import type { Group } from '../types.ts';
import { readGroups } from '../watch/checkpoint-groups.ts';
import type { Checkpoint } from '../watch/run-directory.ts';

/** What a checkpoint holds beside the weights and the optimizer. */
export interface RunState {
  readonly version: number;
  readonly seconds: number;
  readonly sampler: SamplerState;
  readonly update: UpdateState | undefined;
  readonly schedule?: SavedSchedule | undefined;
}

/** Finished groups are stored beside it (watch/checkpoint-groups.ts), in the same order. */
interface SavedSchedule extends Omit<ScheduleState<unknown>, 'finished'> {
  readonly finished: readonly Omit<FinishedGroup<unknown>, 'group'>[];
}

export const runStateOf = ({ state }: Checkpoint) => state as unknown as RunState;

export function savedSchedule<T>(schedule: ScheduleState<T>): SavedSchedule {
  return { ...schedule, finished: schedule.finished.map(({ group: _, ...admitted }) => admitted) };
}

/** Groups in progress when the checkpoint was made, with the tasks of the dataset. */
export async function readSchedule<T>(
  checkpoint: Checkpoint,
  tasks: Pick<TaskOrder<T>, 'at'>,
): Promise<ScheduleState<T> | undefined> {
  const { schedule } = runStateOf(checkpoint);
  if (!schedule) return undefined;
  const groups = schedule.finished.length > 0 ? await readGroups(checkpoint.path) : [];
  const finished = await Promise.all(
    schedule.finished.map(async (admitted, at) => {
      const { index, task } = await tasks.at(admitted.place);
      return { ...admitted, group: withTask(groups[at]!, index, task) };
    }),
  );
  return { ...schedule, finished };
}

/** A stored group, with the task that the dataset has. */
function withTask<T>(group: Group, index: number, task: T): Group<T> {
  if (group.taskIndex !== index) {
    throw new ConfigError(
      `a group in the checkpoint is of row ${group.taskIndex}, where the dataset now has row ${index}; resume with the dataset the run began with`,
    );
  }
  const attempts = group.attempts.map((scored) => ({
    ...scored,
    trajectory: { ...scored.trajectory, task },
  }));
  return { taskIndex: index, task, attempts };
}

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder, writeFileAtomically } from '../lib/files.ts';
import type { Group, Segment } from '../types.ts';
import { RUN_FORMAT } from './run-directory.ts';
import { readStepIndex, readTrajectory, writeTrajectories } from './trajectory-store.ts';

/**
 * Groups that were rolled out and not yet trained on, in the folder `groups/` of a checkpoint: their trajectories as a
 * step's are stored, and in groups.json what that does not hold, which attempts belong together and where images are.
 */
interface GroupsFile {
  readonly format: number;
  readonly groups: readonly {
    readonly taskIndex: number;
    readonly attempts: number;
    /** Images of each attempt, by segment. */
    readonly images: readonly (readonly Segment['images'][])[];
  }[];
}

const STEP = 0;

export async function writeGroups(checkpoint: string, groups: readonly Group[]): Promise<void> {
  const folder = join(checkpoint, 'groups');
  await makeFolder(folder);
  await writeTrajectories(folder, STEP, groups);
  const file: GroupsFile = {
    format: RUN_FORMAT,
    groups: groups.map(({ taskIndex, attempts }) => ({
      taskIndex,
      attempts: attempts.length,
      images: attempts.map(({ trajectory }) => trajectory.segments.map(({ images }) => images)),
    })),
  };
  await writeFileAtomically(join(folder, 'groups.json'), `${JSON.stringify(file)}\n`);
}

/** Their tasks are as JSON holds them; who has the dataset puts in the real ones. */
export async function readGroups(checkpoint: string): Promise<Group[]> {
  const folder = join(checkpoint, 'groups');
  const file = JSON.parse(await readFile(join(folder, 'groups.json'), 'utf8')) as GroupsFile;
  const { trajectories } = await readStepIndex(folder, STEP);
  let next = 0;
  const groups: Group[] = [];
  for (const { taskIndex, attempts, images } of file.groups) {
    const read = [];
    for (let attempt = 0; attempt < attempts; attempt++) {
      const stored = await readTrajectory(folder, STEP, trajectories[next++]!);
      const { rewards, reward, ...described } = stored.trajectory;
      const segments = stored.segments.map(
        ({ ids, sampled, trained, rolloutLogprobs, versions, turns }, at): Segment => ({
          ids,
          sampled,
          trained,
          logprobs: rolloutLogprobs,
          versions,
          turns,
          images: images[attempt]![at]!,
        }),
      );
      read.push({ trajectory: { ...described, segments }, rewards, reward: reward ?? undefined });
    }
    groups.push({ taskIndex, task: read[0]?.trajectory.task ?? {}, attempts: read });
  }
  return groups;
}

import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../lib/files.ts';
import type { Group, Scored } from '../types.ts';
import { runPaths, writeOptions } from './run-directory.ts';
import { writeTrajectories } from './trajectory-store.ts';

/**
 * What was sampled to measure the policy, by validation set: `evaluations/SET/` is laid out as a run directory with
 * only trajectories, so that everything that shows a run can show it too.
 */
export async function writeEvaluations(
  directory: string,
  step: number,
  attempts: readonly Scored[],
  options: object,
): Promise<void> {
  for (const [set, members] of byKey(attempts, ({ trajectory }) => trajectory.evaluation ?? '')) {
    const folder = join(runPaths(directory).evaluations, folderOf(set));
    await makeFolder(folder);
    if (!existsSync(runPaths(folder).options)) await writeOptions(folder, { ...options, evaluation: set });
    await writeTrajectories(folder, step, groupsOf(members));
  }
}

/** Folders of the validation sets that a run was evaluated on. */
export async function listEvaluations(directory: string): Promise<string[]> {
  const { evaluations } = runPaths(directory);
  const names = await readdir(evaluations).catch(() => []);
  return names
    .sort()
    .map((name) => join(evaluations, name))
    .filter((folder) => existsSync(runPaths(folder).options));
}

/** A set may be named as a dataset is, `openai/gsm8k`; `.` and `..` cannot be folder names. */
function folderOf(set: string): string {
  return encodeURIComponent(set).replace(/^\.{0,2}$/, (dots) => `set-${dots.length}`);
}

/** Groups in order of task and attempt, not of which ended first. */
function groupsOf(attempts: readonly Scored[]): Group[] {
  return [...byKey(attempts, ({ trajectory }) => trajectory.taskIndex)]
    .sort(([a], [b]) => a - b)
    .map(([taskIndex, members]) => ({
      taskIndex,
      task: members[0]!.trajectory.task,
      attempts: members.sort((a, b) => a.trajectory.attempt - b.trajectory.attempt),
    }));
}

function byKey<K>(attempts: readonly Scored[], keyOf: (scored: Scored) => K): Map<K, Scored[]> {
  const groups = new Map<K, Scored[]>();
  for (const scored of attempts) {
    const members = groups.get(keyOf(scored));
    if (members) members.push(scored);
    else groups.set(keyOf(scored), [scored]);
  }
  return groups;
}

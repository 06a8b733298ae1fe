/** Where a run's groups come from: its mode, on its servers, tasks and rewards. */
import { ConfigError } from './errors.ts';
import { isOffPolicy, takesFirst } from './modes/mode.ts';
import { type GroupSource, schedule } from './modes/schedule.ts';
import type { ResolvedOptions } from './options.ts';
import { openRollout } from './rollout.ts';
import type { Run } from './run.ts';
import { type Algorithm, keepGroup } from './training/algorithm.ts';
import { corrections } from './training/correction.ts';
import type { Group } from './types.ts';

export async function openGroupSource<T extends object>(
  run: Run<T>,
  { mode, steps, tasksPerStep, attemptsPerTask, rewards, signal }: ResolvedOptions<T>,
): Promise<GroupSource<T>> {
  let at = run.step + 1;
  const { step: _, ...shared } = run.rolloutOptions(at);
  const rolling = openRollout<T>({
    ...shared,
    onProgress: (progress) => {
      const finished = Math.min(progress.finished, progress.total); // more may be in progress than a step needs
      run.rolloutOptions(at).onProgress?.({ ...progress, finished });
    },
  });
  const { dynamicSampling } = run.algorithm;
  const isRace = mode.kind === 'over-sample' || mode.kind === 'tail-rounds';
  const started =
    (tasksPerStep + (isRace ? mode.extraTasks : 0)) * (attemptsPerTask + (isRace ? mode.extraAttempts : 0));
  return schedule<T>(
    mode,
    {
      tasksPerStep,
      attemptsPerTask,
      steps,
      version: () => run.version,
      nextPlaces: run.nextPlaces,
      taskAt: run.taskAt,
      begin: (step) => {
        at = step;
        rolling.begin(started, { stopOnAgentFailure: step <= 1 });
      },
      rollOut: async (request) => {
        const group = await rolling.group(request);
        rolling.throwIfTooMany();
        if (rewards.length === 0) checkOwnScores(group);
        return group;
      },
      scoreBatch: rolling.scoreBatch,
      ...(dynamicSampling
        ? {
            keep: (group) => keepGroup(group, dynamicSampling),
            ...(dynamicSampling.maxRefills < 0 ? {} : { maxRefills: dynamicSampling.maxRefills }),
          }
        : {}),
      pause: run.pauseServers,
      resume: run.resumeServers,
      ...(signal ? { signal } : {}),
    },
    await run.readSchedule(),
  );
}

/** A line for the user where dynamic sampling gave up before a step had its groups. */
export function fewGroupsNotices(
  groups: number,
  { dynamicSampling }: Algorithm,
  { tasksPerStep }: { readonly tasksPerStep: number },
): string[] {
  if (!dynamicSampling || groups >= tasksPerStep) return [];
  const { maxRefills } = dynamicSampling;
  const left = groups === 0 ? `None of ${tasksPerStep} groups is` : `${groups} of ${tasksPerStep} groups are`;
  return [
    `${left} left to train on: in the others all attempts got the same, and dynamic sampling stops after ${maxRefills} ${maxRefills === 1 ? 'refill' : 'refills'} (dynamicSampling.maxRefills). Use harder or easier tasks, or allow more.`,
  ];
}

/**
 * The algorithm as a mode needs it, and a line for the user where that is not what was asked for. Tokens of older
 * weights are compared to what sampled them: by the ratio (`old: 'behaviour'`), which held best in the sweep of
 * docs/algorithms.md, or by importance weights where the loss takes no ratio.
 */
export function algorithmFor<T>(
  algorithm: Algorithm,
  { mode, rewards }: Pick<ResolvedOptions<T>, 'mode' | 'rewards'>,
): { algorithm: Algorithm; notice?: string } {
  if (mode.kind === 'partial' && algorithm.advantage.kind === 'remax') {
    throw new ConfigError(
      `the mode partial pauses the servers while a step is trained, but ${algorithm.name} then needs a greedy attempt; use another mode, or rloo()`,
    );
  }
  if (takesFirst(mode) && algorithm.dynamicSampling && rewards.some(({ kind }) => kind === 'batch')) {
    throw new ConfigError(
      `the mode ${mode.kind} leaves out groups one by one, but a reward sees whole batches; use the mode synchronous or one-step-off, or no dynamicSampling`,
    );
  }
  const { name, old, loss, correction } = algorithm;
  const takesRatio = loss.kind !== 'reinforce';
  if (!isOffPolicy(mode) || (takesRatio && old === 'behaviour') || correction) return { algorithm };
  const [compared, how]: [Partial<Algorithm>, string] = takesRatio
    ? [{ old: 'behaviour' }, `${name} takes its ratios to what sampled them (old: 'behaviour')`]
    : [
        { correction: corrections.sequenceTruncated(2) },
        `importance weights by sequence, cut at 2, are added to ${name}`,
      ];
  return {
    algorithm: { ...algorithm, ...compared },
    notice: `The mode ${mode.kind} trains on tokens of older weights, so ${how}. Give a correction to choose yourself.`,
  };
}

function checkOwnScores<T>({ attempts }: Group<T>): void {
  const unscored = attempts.find(({ trajectory: { end }, reward }) => {
    return reward === undefined && (end.kind === 'completed' || end.kind === 'truncated');
  });
  if (!unscored) return;
  throw new ConfigError(
    `rewards is empty, and the agent did not score trajectory ${unscored.trajectory.id} itself; give a reward, or call ` +
      'context.reward(value) in the agent',
  );
}

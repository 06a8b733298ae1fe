import { evaluate } from './evaluate.ts';
import { type ResolvedOptions, resolveOptions, type TrainOptions } from './options.ts';
import { rollout } from './rollout.ts';
import { openRun, type Run, type StepReport } from './run.ts';
import { keepGroup } from './training/algorithm.ts';
import { createBatch } from './training/batch.ts';
import { updatePolicy } from './training/update-policy.ts';
import type { Group, Metrics, Task } from './types.ts';
import type { SourceEvaluation } from './watch/evaluation.ts';

/**
 * The loop. A step takes tasks, rolls out a group of trajectories for each, scores them, makes a batch of their
 * tokens, updates the policy, hands the new weights to the servers and reports. Read this first.
 *
 *   for await (const report of train({ model, tasks, agent, rewards, runDir })) console.log(report.metrics);
 *
 * Breaking out of the loop finishes the step and leaves a checkpoint; aborting `signal` stops at once. Both leave
 * a run that `resume: true` continues with the results it would have had.
 */
export async function* train<T extends Task>(
  given: TrainOptions<T>,
): AsyncGenerator<StepReport<T>, void, void> {
  const options = resolveOptions(given);
  const run = await openRun(options);
  try {
    if (run.step === 0 && options.evaluation.before)
      yield await run.record({ evaluations: await validate(run, options, 0) });

    while (run.step < options.steps) {
      const step = run.step + 1;
      const { groups, evicted } = await run.time('gen', () => collectGroups(run, options, step));
      options.signal?.throwIfAborted();
      const baselines = await greedyRewards(run, groups, step);
      const batch = createBatch(groups, { step, version: run.version, algorithm: run.algorithm, baselines });
      const updated = await run.time('update_actor', () =>
        updatePolicy({ ...run.updateOptions(step), batch }),
      );
      const update = { ...updated, metrics: { ...evicted, ...updated.metrics } };
      await run.time('update_weights', () => run.publish(update));
      const evaluations = isEvaluated(step, options)
        ? await run.time('testing', () => validate(run, options, step))
        : [];
      const report = await run.record({ groups, update, evaluations });
      if (isCheckpointed(step, options)) await run.checkpoint();
      yield report;
    }
    await run.finish();
  } finally {
    await run.close();
  }
}

/**
 * The groups of one step. With dynamic sampling (DAPO), groups in which every attempt got the same teach nothing
 * and are replaced by those of further tasks, up to a limit of rounds.
 */
async function collectGroups<T extends Task>(
  run: Run<T>,
  { tasksPerStep, attemptsPerTask }: ResolvedOptions<T>,
  step: number,
): Promise<{ groups: Group<T>[]; evicted: Metrics }> {
  const kept: Group<T>[] = [];
  let [evictedGroups, evictedTokens] = [0, 0];
  const { dynamicSampling } = run.algorithm;
  for (let round = 0; kept.length < tasksPerStep; round++) {
    const tasks = await run.takeTasks(tasksPerStep - kept.length);
    const groups = await rollout({ ...run.rolloutOptions(step), tasks, attempts: attemptsPerTask });
    if (dynamicSampling === undefined) return { groups, evicted: {} };
    for (const group of groups) {
      if (keepGroup(group, dynamicSampling)) kept.push(group);
      else {
        evictedGroups++;
        evictedTokens += tokensOf(group);
      }
    }
    if (dynamicSampling.maxRefills > 0 && round >= dynamicSampling.maxRefills) break;
  }
  return {
    groups: kept,
    evicted: {
      'training/filter_groups/evicted_samples': evictedGroups,
      'training/filter_groups/evicted_tokens': evictedTokens,
    },
  };
}

const tokensOf = <T>({ attempts }: Group<T>) =>
  attempts.reduce(
    (sum, { trajectory }) => trajectory.segments.reduce((tokens, { ids }) => tokens + ids.length, sum),
    0,
  );

/** ReMax compares with one greedy attempt at each task. */
async function greedyRewards<T extends Task>(
  run: Run<T>,
  groups: readonly Group<T>[],
  step: number,
): Promise<(number | undefined)[] | undefined> {
  if (run.algorithm.advantage.kind !== 'remax') return undefined;
  const options = run.rolloutOptions(step);
  const greedy = await rollout({
    ...options,
    sampling: { ...options.sampling, temperature: 0 },
    tasks: groups.map(({ taskIndex, task }) => ({ index: taskIndex, task })),
    attempts: 1,
  });
  return greedy.map(({ attempts }) => attempts[0]?.reward);
}

async function validate<T extends Task>(run: Run<T>, { evaluation }: ResolvedOptions<T>, step: number) {
  const results: SourceEvaluation[] = [];
  for (const [name, tasks] of Object.entries(run.validation)) {
    const { sources } = await evaluate({
      ...run.rolloutOptions(step, 'evaluation'),
      name,
      tasks,
      limit: evaluation.tasks,
      attempts: evaluation.attempts,
    });
    results.push(...sources);
  }
  return results;
}

function isEvaluated<T>(step: number, { steps, evaluation }: ResolvedOptions<T>): boolean {
  return step === steps || (evaluation.every > 0 && step % evaluation.every === 0);
}

function isCheckpointed<T>(step: number, { steps, checkpoints }: ResolvedOptions<T>): boolean {
  return step === steps || (checkpoints.every > 0 && step % checkpoints.every === 0);
}

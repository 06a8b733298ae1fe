import { evaluate } from './evaluate.ts';
import { type ResolvedOptions, resolveOptions, type TrainOptions } from './options.ts';
import { rollout } from './rollout.ts';
import { checkTrained } from './run/check-trained.ts';
import { openRun } from './run/open-run.ts';
import type { Run, StepReport } from './run.ts';
import { createBatch } from './training/batch.ts';
import { openAdvantage } from './training/parts.ts';
import type { Group } from './types.ts';
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
export async function* train<T extends object>(
  given: TrainOptions<T>,
): AsyncGenerator<StepReport<T>, void, void> {
  const options = resolveOptions(given);
  const run = await openRun(options);
  try {
    if (run.step === 0 && options.evaluation.before)
      yield await run.record({ evaluations: await validate(run, options, 0) });

    while (run.step < options.steps) {
      const step = run.step + 1;
      const { groups, metrics } = await run.time('gen', () => run.source.take(step));
      options.signal?.throwIfAborted();
      const baselines = await greedyRewards(run, groups, step);
      const batch = createBatch(groups, { step, version: run.version, algorithm: run.algorithm, baselines });
      checkTrained(step, groups, batch);
      const update = await run.publish(await run.update(batch));
      const evaluations = isEvaluated(step, options)
        ? await run.time('testing', () => validate(run, options, step))
        : [];
      const report = await run.record({ groups, metrics, update, evaluations });
      if (isCheckpointed(step, options)) await run.checkpoint();
      yield report;
    }
    run.finish();
  } catch (error) {
    run.fail(error);
    throw error;
  } finally {
    await run.close();
  }
}

/** Some algorithms compare with one greedy attempt at each task. */
async function greedyRewards<T extends object>(
  run: Run<T>,
  groups: readonly Group<T>[],
  step: number,
): Promise<(number | undefined)[] | undefined> {
  if (!openAdvantage(run.algorithm.advantage).needs.greedyAttempt) return undefined;
  const options = run.rolloutOptions(step);
  const tasks = new Map(groups.map(({ taskIndex, task }) => [taskIndex, { index: taskIndex, task }]));
  const greedy = await rollout({
    ...options,
    name: 'greedy',
    sampling: { ...options.sampling, temperature: 0 },
    tasks: [...tasks.values()],
    attempts: 1,
  });
  const rewards = new Map(greedy.map(({ taskIndex, attempts }) => [taskIndex, attempts[0]?.reward]));
  return groups.map(({ taskIndex }) => rewards.get(taskIndex));
}

async function validate<T extends object>(run: Run<T>, { evaluation }: ResolvedOptions<T>, step: number) {
  const results: SourceEvaluation[] = [];
  for (const [name, tasks] of Object.entries(run.validation)) {
    const { sources } = await evaluate({
      ...run.rolloutOptions(step, 'evaluation'),
      name,
      tasks,
      limit: evaluation.limit,
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

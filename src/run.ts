import type { Dataset } from './dataset/dataset.ts';
import type { SamplerState } from './dataset/sampler.ts';
import { TrainerError } from './errors.ts';
import { validationSets } from './evaluate.ts';
import { Attestor } from './gateway/attest.ts';
import type { Gateway } from './gateway/gateway.ts';
import { realClock } from './lib/clock.ts';
import { hashSeed } from './lib/random.ts';
import type { ScheduleState } from './modes/schedule.ts';
import { describeOptions } from './options/describe.ts';
import { limitsWithin, type ResolvedOptions } from './options.ts';
import type { RolloutOptions } from './rollout.ts';
import { adamAt } from './run/adam-at.ts';
import { attest, CANARIES } from './run/attest.ts';
import { firstStepNotices } from './run/first-step-notices.ts';
import { openParts, type Parts } from './run/open-parts.ts';
import { type RunState, readSchedule, savedSchedule } from './run/saved-state.ts';
import type { Algorithm } from './training/algorithm.ts';
import { loadModels, refreshReference, saveModels } from './training/models.ts';
import type { UpdateOptions, UpdateResult } from './training/update-policy.ts';
import type { Group, Metrics, Scored, Task } from './types.ts';
import { writeGroups } from './watch/checkpoint-groups.ts';
import { type SourceEvaluation, validationMetrics } from './watch/evaluation.ts';
import { writeEvaluations } from './watch/evaluation-store.ts';
import { watchMachine } from './watch/machine-use.ts';
import { rolloutMetrics } from './watch/rollout-metrics.ts';
import {
  appendMetrics,
  readLatestCheckpoint,
  runPaths,
  writeCheckpoint,
  writeSummary,
} from './watch/run-directory.ts';
import { type SampledServer, watchServers, writeServerSamples } from './watch/server-samples.ts';
import { trackerMemory } from './watch/trackers/memory.ts';
import { startTracking } from './watch/trackers/tracking.ts';
import { writeTrajectories } from './watch/trajectory-store.ts';

/** What one step did. `step` 0 is the evaluation before training. */
export interface StepReport<T = Task> {
  readonly step: number;
  readonly steps: number;
  /** Of the weights after the step. */
  readonly version: number;
  /** Since the run's first start, pauses between a stop and its resume not counted. */
  readonly seconds: number;
  readonly metrics: Metrics;
  readonly groups: readonly Group<T>[];
  /** Sentences for the user: what looks wrong, and what to do. */
  readonly notices: readonly string[];
}

/** All that lives as long as a run: its directory, model, servers, position in the tasks. */
export interface Run<T extends object> {
  readonly step: number;
  readonly version: number;
  readonly algorithm: Algorithm;
  readonly validation: Readonly<Record<string, Dataset<T>>>;
  /** Where the next tasks lie in the dataset. */
  nextPlaces(count: number): readonly number[];
  taskAt(place: number): Promise<{ readonly index: number; readonly task: T }>;
  /** Groups in progress when the checkpoint was made that the run is resumed from. */
  readSchedule(): Promise<ScheduleState<T> | undefined>;
  /** Servers stop in the middle of replies, which go on later. */
  pauseServers(): Promise<void>;
  resumeServers(): Promise<void>;
  rolloutOptions(step: number, purpose?: 'evaluation'): Omit<RolloutOptions<T>, 'tasks' | 'attempts'>;
  updateOptions(step: number): Omit<UpdateOptions, 'batch'>;
  /** Times a part of the step, as `timing_s/NAME`. */
  time<R>(name: string, work: () => Promise<R>): Promise<R>;
  /** New weights to every server. */
  publish(update: UpdateResult): Promise<void>;
  /** Writes the step's trajectories and metrics; the step is then done. */
  record(done: {
    groups?: readonly Group<T>[];
    update?: UpdateResult;
    evaluations: readonly SourceEvaluation[];
  }): Promise<StepReport<T>>;
  /** The step is done: what a checkpoint of it holds of groups and tasks, as of now. */
  remember(schedule: ScheduleState<T>): void;
  checkpoint(): Promise<void>;
  finish(): Promise<void>;
  /** Leaves a checkpoint of the last finished step, unless the run was aborted, and closes everything. */
  close(): Promise<void>;
}

export async function openRun<T extends object>(options: ResolvedOptions<T>): Promise<Run<T>> {
  const parts = await openParts(options);
  try {
    return await startRun(options, parts);
  } catch (error) {
    await parts.close();
    throw error;
  }
}

async function startRun<T extends object>(options: ResolvedOptions<T>, parts: Parts): Promise<Run<T>> {
  const { resumed, format, images, trainer, reference, critic, server, sendFirst, sampler } = parts;
  const { algorithm, notice } = parts;
  const { runDir, signal } = options;
  const clock = realClock();
  let step = resumed?.step ?? 0;
  let checkpointed = step;
  /** False from the beginning of an update until its step is recorded: then the weights are of no step. */
  let isWhole = true;
  const state = resumed?.state as RunState | undefined;
  let version = state?.version ?? 0;
  let updateState = state?.update;
  const secondsBefore = state?.seconds ?? 0;
  const seconds = () => secondsBefore + clock.now() / 1000;
  let timings: Metrics = {};
  const serverInfo = await server.info();
  const attested = sendFirst || (serverInfo.engine === 'embedded' && serverInfo.can.has('scorePrompt'));
  const attestor = attested ? new Attestor(CANARIES.map((text) => format.encodeText(text))) : undefined;
  let lapStart = clock.now();

  const models = { trainer, reference, critic, algorithm };
  if (resumed) {
    await loadModels(models, resumed.path);
    sampler.restore(state!.sampler);
  }
  if (resumed || sendFirst) await sendWeights();
  const limits = limitsWithin(options.limits, serverInfo.contextTokens);
  const described = describeOptions(options) as Readonly<Record<string, unknown>>;
  const tracking = startTracking(options.trackers ?? [], {
    directory: runDir,
    options: described,
    resumedAt: resumed && step,
    clockBegan: Date.now() - clock.now(),
    decode: (ids) => format.decode(ids),
    memory: trackerMemory(runDir),
  });
  const machine = watchMachine(clock);
  const load = watchServers(() => sampledServers(server), clock);
  /** What evaluations have sampled since the last step was recorded. */
  let evaluated: Scored[] = [];
  let finished = false;
  let remembered: { schedule?: ScheduleState<T>; sampler: SamplerState } = { sampler: sampler.state() };

  async function sendWeights() {
    const weights = await trainer.publish(version);
    await server.update(weights);
    if (attestor) await attest(attestor, server, trainer, weights.kind === 'lora' ? 'adapter' : 'weights');
  }

  /** To the last checkpoint. The model's own folder is no place to go back to: it holds neither critic nor adapter. */
  async function goBack(reason: string) {
    const checkpoint = await readLatestCheckpoint(runDir);
    if (!checkpoint) {
      throw new TrainerError(
        `${reason}; there is no checkpoint yet, so the run cannot go back; a lower optimizer.learningRate may keep the weights whole, and a lower checkpoints.every leaves one sooner`,
      );
    }
    await loadModels(models, checkpoint.path);
  }

  const run: Run<T> = {
    get step() {
      return step;
    },
    get version() {
      return version;
    },
    algorithm,
    validation: validationSets(options),
    nextPlaces: (count) => sampler.next(count),
    taskAt: async (place) => ({
      index: options.tasks.indexAt(place),
      task: await options.tasks.at(place),
    }),
    readSchedule: async () => resumed && readSchedule(resumed, run.taskAt),
    pauseServers: () => server.pause('abort'),
    resumeServers: () => server.resume(),
    rolloutOptions: (at, purpose) => ({
      agent: options.agent,
      rewards: options.rewards,
      server,
      format,
      images,
      limits,
      sampling: purpose
        ? { ...options.sampling, temperature: options.evaluation.temperature }
        : options.sampling,
      step: at,
      seed: options.seed,
      concurrency: options.concurrency,
      clock,
      stopOnAgentFailure: at <= 1,
      tolerateFailedShare: options.failures.tolerateShare,
      retries: options.failures.retries,
      ...(signal ? { signal } : {}),
      ...(purpose && { onTrajectory: (scored: Scored<T>) => void evaluated.push(scored as Scored) }),
      onProgress: ({ finished, total, sampledTokens }) =>
        options.onProgress?.({
          step: at,
          phase: purpose ?? 'rollout',
          done: finished,
          total,
          tokens: sampledTokens,
        }),
    }),
    updateOptions: (at) => {
      isWhole = false;
      return {
        trainer,
        ...(reference ? { reference } : {}),
        ...(critic ? { critic } : {}),
        algorithm,
        optimizer: {
          adam: adamAt(options, at),
          miniBatches: options.optimizer.miniBatches,
          epochs: options.optimizer.epochs,
          tokensPerMicroBatch: options.optimizer.tokensPerMicroBatch,
          balance: true,
          shuffle: true,
        },
        temperature: options.sampling.temperature,
        tokensPerTrajectory: limits.tokensPerTrajectory,
        seed: hashSeed(options.seed, 'update', at),
        ...(updateState ? { state: updateState } : {}),
        guard: { onNonFinite: options.failures.notFinite, directory: runPaths(runDir).setAside, run: runDir },
        ...(signal ? { signal } : {}),
        onProgress: ({ done, total }) => options.onProgress?.({ step: at, phase: 'training', done, total }),
      };
    },
    time: async (name, work) => {
      const began = clock.now();
      try {
        return await work();
      } finally {
        timings[`timing_s/${name}`] = (timings[`timing_s/${name}`] ?? 0) + (clock.now() - began) / 1000;
      }
    },
    publish: async (update) => {
      updateState = update.state;
      if (update.skipped?.weightsBroken) await goBack(update.skipped.reason);
      else await refreshReference(models, step + 1, runDir);
      version += 1;
      await sendWeights();
    },
    record: async ({ groups = [], update, evaluations }) => {
      const at = update ? step + 1 : step;
      const notes = new Map(
        update?.tokens.map((record) => [`${record.trajectory}/${record.segment}`, record]),
      );
      const samples = load.take();
      if (groups.length > 0) {
        await writeServerSamples(runDir, at, samples);
        await writeTrajectories(runDir, at, groups as readonly Group[], (id, segment) => {
          const record = notes.get(`${id}/${segment}`);
          return {
            ...(record ? { advantages: record.advantages } : {}),
            ...(record?.logprobs ? { trainerLogprobs: record.logprobs } : {}),
            ...(record?.entropy ? { entropies: record.entropy } : {}),
          };
        });
      }
      await writeEvaluations(runDir, at, evaluated, described);
      const rolledOut = groups.length > 0 ? rolloutMetrics(groups as readonly Group[]) : {};
      const tokens = rolledOut['perf/total_num_tokens'];
      const stepSeconds = (clock.now() - lapStart) / 1000;
      const metrics: Metrics = {
        'training/global_step': at,
        ...rolledOut,
        ...update?.metrics,
        ...validationMetrics(evaluations),
        ...timings,
        'timing_s/step': stepSeconds,
        'perf/time_per_step': stepSeconds,
        ...(tokens !== undefined && { 'perf/throughput': tokens / stepSeconds }),
        ...machine.take(),
      };
      timings = {};
      lapStart = clock.now();
      const report: StepReport<T> = {
        step: at,
        steps: options.steps,
        version,
        seconds: seconds(),
        metrics,
        groups,
        notices: [
          ...(update?.notices ?? []),
          ...(at === 1 && notice !== undefined ? [notice] : []),
          ...(at === 1 ? firstStepNotices(metrics, options.agent.tools.length > 0) : []),
          ...tracking.takeNotices(),
        ],
      };
      await appendMetrics(runDir, { step: at, seconds: report.seconds, metrics });
      tracking.log({ step: at, seconds: report.seconds, time: Date.now(), metrics });
      tracking.trace([...groups.flatMap((group) => (group as Group).attempts), ...evaluated]);
      evaluated = [];
      sampler.update(groups.map((group) => ({ index: group.taskIndex, success: successOf(group) })));
      step = at;
      isWhole = true;
      return report;
    },
    remember: (schedule) => {
      remembered = { schedule, sampler: sampler.state() };
    },
    checkpoint: async () => {
      const { schedule, sampler: tasks } = remembered;
      const kept: RunState = {
        version,
        seconds: seconds(),
        sampler: tasks,
        update: updateState,
        schedule: schedule && savedSchedule(schedule),
      };
      await run.time('save_checkpoint', () =>
        writeCheckpoint(
          runDir,
          step,
          kept,
          async (folder) => {
            await saveModels(models, folder);
            const done = schedule?.finished ?? [];
            if (done.length > 0)
              await writeGroups(
                folder,
                done.map(({ group }) => group as Group),
              );
          },
          options.checkpoints.keep,
        ).then(() => {}),
      );
      checkpointed = step;
    },
    finish: async () => {
      await writeSummary(runDir, { step, version, seconds: seconds(), finished: true });
      finished = true;
    },
    close: async () => {
      try {
        if (step > checkpointed && isWhole && !signal?.aborted) await run.checkpoint();
      } finally {
        machine.close();
        load.close();
        await Promise.all([parts.close(), tracking.close(finished ? 'finished' : 'stopped')]);
        // No step is left to carry them.
        for (const notice of tracking.takeNotices()) process.emitWarning(notice, 'TrackerWarning');
      }
    },
  };
  return run;
}

function sampledServers(server: Gateway): SampledServer[] {
  const answering = new Map(server.servers().map((one) => [one.name, one.server]));
  return server.status().map(({ name, inFlight }) => {
    const asked = answering.get(name);
    return { name, inFlight, ...(asked?.load && { load: (signal) => asked.load!(signal) }) };
  });
}

/** Mean reward of a group's attempts, held within 0 and 1: what the sampler ranks tasks by. */
function successOf<T>(group: Group<T>): number {
  const rewards = group.attempts.flatMap((attempt) => attempt.reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  return Math.min(1, Math.max(0, mean));
}

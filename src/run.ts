import { existsSync } from 'node:fs';
import type { ChatFormat } from './chat/format.ts';
import { loadChatFormat, loadModelFiles } from './chat/model-files.ts';
import { findModelFolder } from './chat/model-folder.ts';
import { requireSelfTest } from './chat/self-test.ts';
import type { Dataset } from './dataset/dataset.ts';
import { createSampler, type Sampler, type SamplerState } from './dataset/sampler.ts';
import { embedded } from './engine/embedded.ts';
import { ConfigError } from './errors.ts';
import { Attestor } from './gateway/attest.ts';
import { type Gateway, gateway } from './gateway/gateway.ts';
import { algorithmFor } from './group-source.ts';
import { checkLogprobs } from './inference/check-server.ts';
import { realClock } from './lib/clock.ts';
import { type ImageBlobs, imageBlobs, pixelsPerTokenOf } from './lib/image-blobs.ts';
import { hashSeed } from './lib/random.ts';
import { isOffPolicy } from './modes/mode.ts';
import type { FinishedTicket, ScheduleState } from './modes/schedule.ts';
import { describeOptions } from './options/describe.ts';
import { type Backend, type ChatOverrides, limitsWithin, type ResolvedOptions } from './options.ts';
import type { RolloutOptions } from './rollout.ts';
import { type Algorithm, type CriticOptions, checkAlgorithm } from './training/algorithm.ts';
import { grpo } from './training/algorithms.ts';
import { loadModels, refreshReference, saveModels } from './training/models.ts';
import { learningRateShare } from './training/schedule.ts';
import type { Trainer } from './training/trainer.ts';
import type { UpdateOptions, UpdateResult, UpdateState } from './training/update-policy.ts';
import type { Group, Metrics, Scored, Task } from './types.ts';
import { readGroups, writeGroups } from './watch/checkpoint-groups.ts';
import { type SourceEvaluation, validationMetrics } from './watch/evaluation.ts';
import { writeEvaluations } from './watch/evaluation-store.ts';
import { watchMachine } from './watch/machine-use.ts';
import { rolloutMetrics } from './watch/rollout-metrics.ts';
import {
  appendMetrics,
  type Checkpoint,
  createRunDirectory,
  discardPast,
  readLatestCheckpoint,
  runPaths,
  writeCheckpoint,
  writeOptions,
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

/** What a checkpoint holds beside the weights and the optimizer. */
interface RunState {
  readonly version: number;
  readonly seconds: number;
  readonly sampler: SamplerState;
  readonly update: UpdateState | undefined;
  readonly schedule?: SavedSchedule | undefined;
}

/** Groups that are done lie beside it (watch/checkpoint-groups.ts), in the same order. */
interface SavedSchedule extends Omit<ScheduleState<unknown>, 'finished'> {
  readonly finished: readonly Omit<FinishedTicket<unknown>, 'group'>[];
}

/** All that lives as long as a run: its directory, model, servers, position in the tasks. */
export interface Run<T extends Task> {
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

export async function openRun<T extends Task>(options: ResolvedOptions<T>): Promise<Run<T>> {
  const { signal } = options;
  const { algorithm, notice } = algorithmFor(options.algorithm ?? grpo(), options);
  const backend: Backend = options.backend ?? embedded();
  const resumed = await openDirectory(options);
  const { directory: model, format } = await openChatFormat(options.model, {
    trustPrompt: options.trustPrompt,
    tools: options.agent.tools.length > 0,
    chat: options.chat,
    signal,
  });
  const pixelsPerToken = await pixelsPerTokenOf(model);
  const images = imageBlobs(runPaths(options.runDir).blobs, { pixelsPerToken });
  const opened: { close(): Promise<void> }[] = [];
  const open = async (resource: Promise<Trainer>) => {
    const ready = await resource;
    opened.push(ready);
    return ready;
  };
  const closeAll = async () => {
    await Promise.allSettled(opened.splice(0).map((resource) => resource.close()));
  };
  try {
    const valueHead = algorithm.critic?.shared ?? false;
    const trainer = await open(backend.openTrainer('policy', model, { valueHead }));
    const setting = {
      can: trainer.can,
      attemptsPerTask: options.attemptsPerTask,
      tokensPerTrajectory: options.limits.tokensPerTrajectory,
      rewardNames: options.rewards.map((reward) => reward.name),
      temperature: options.sampling.temperature,
    };
    checkAlgorithm(algorithm, setting);
    const servers = await backend.openServers(model, { readImage: images.read });
    opened.push(...servers);
    for (const server of servers) checkLogprobs(await server.info(), options.sampling);
    // What is in progress is interrupted rather than waited for where old and new weights may meet in a trajectory.
    const whileUpdating =
      overlaps(options) && backend.gateway?.whileUpdating === 'wait' ? 'abort' : undefined;
    const server = gateway(servers, { ...backend.gateway, ...(whileUpdating ? { whileUpdating } : {}) });
    const reference = algorithm.kl ? await open(backend.openTrainer('reference', model)) : undefined;
    const openCritic = async ({ model: own, shared }: CriticOptions) => {
      if (shared) return trainer;
      const folder = own === undefined ? model : await findSpeaking(own, format, signal);
      return open(backend.openTrainer('critic', folder));
    };
    const critic = algorithm.critic && (await openCritic(algorithm.critic));
    if (critic) checkAlgorithm(algorithm, { ...setting, criticCan: critic.can });
    const order = options.order ?? { kind: 'shuffle' };
    const sampler = await createSampler(options.tasks, order, hashSeed(options.seed, 'tasks'));
    const sendFirst = backend.sendsFirst ?? false;
    const parts = {
      model,
      format,
      images,
      trainer,
      reference,
      critic,
      server,
      sendFirst,
      sampler,
      algorithm,
      notice,
    };
    return await startRun(options, parts, resumed, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Scored on every server after each update, to see that it arrived; and what tokenizers must agree on. */
const CANARIES = [
  'The quick brown fox jumps over the lazy dog. 17 + 25 = 42, and 9 × 8 = 72.',
  'Question: Anna has 3 apples and buys 4 more. How many does she have now?\nAnswer: she has 7 apples.',
  'function add(a, b) { return a + b; } // returns the sum of two numbers',
];

/** Servers that do not have the weights they were sent get no requests; without any other the run stops. */
async function attest(
  attestor: Attestor,
  server: Gateway,
  trainer: Trainer,
  sent: 'weights' | 'adapter',
): Promise<void> {
  const trainerScores = async (prompts: readonly Int32Array[]) => {
    const rows = prompts.map((ids) => ({ ids, targets: new Uint8Array(ids.length).fill(1).fill(0, 0, 1) }));
    const { logprob } = await trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
    return logprob!.map((row) => row.subarray(1));
  };
  for (const { name, state, why } of await attestor.check(server.servers(), trainerScores, sent)) {
    if (state === 'failed') server.exclude(name, `the update did not arrive: ${why}`, { forGood: true });
    if (state === 'unreachable') server.exclude(name, why!);
  }
}

interface FormatOptions {
  readonly trustPrompt?: boolean;
  /** Also proves dialogues with tools. */
  readonly tools?: boolean;
  readonly chat?: ChatOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A model's own files, by path or hub name, and its chat format, proven on ids before anything is sampled. */
export async function openChatFormat(
  model: string,
  { trustPrompt = false, tools = true, chat = {}, signal }: FormatOptions = {},
): Promise<{ directory: string; format: ChatFormat }> {
  const directory = await findModelFolder(model, { weights: true, ...(signal ? { signal } : {}) });
  const format = await loadChatFormat(directory, { ...chat, trustPromptSpecialTokens: trustPrompt });
  requireSelfTest(format, { tools });
  return { directory, format };
}

/** The folder of another model that reads the same tokens. */
async function findSpeaking(name: string, format: ChatFormat, signal?: AbortSignal): Promise<string> {
  const { folder, tokenizer } = await loadModelFiles(name, { weights: true, ...(signal ? { signal } : {}) });
  const different = CANARIES.find((text) => {
    const [ids, others] = [format.encodeText(text), tokenizer.encode(text)];
    return ids.length !== others.length || ids.some((id, at) => id !== others[at]);
  });
  if (different === undefined) return folder;
  throw new ConfigError(
    `the critic ${name} has another tokenizer than the policy: ${JSON.stringify(different)} gets other tokens; a critic reads the policy's tokens`,
  );
}

interface Parts {
  /** Folder of the model the run began with. */
  readonly model: string;
  readonly format: ChatFormat;
  readonly images: ImageBlobs;
  readonly trainer: Trainer;
  readonly reference: Trainer | undefined;
  readonly critic: Trainer | undefined;
  readonly server: Gateway;
  readonly sendFirst: boolean;
  readonly sampler: Sampler;
  readonly algorithm: Algorithm;
  /** Said with the first step. */
  readonly notice: string | undefined;
}

async function startRun<T extends Task>(
  options: ResolvedOptions<T>,
  { model, format, images, trainer, reference, critic, server, sendFirst, sampler, algorithm, notice }: Parts,
  resumed: Checkpoint | undefined,
  closeAll: () => Promise<void>,
): Promise<Run<T>> {
  const { runDir, signal } = options;
  const clock = realClock();
  let step = resumed?.step ?? 0;
  let checkpointed = step;
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
  const tracking = startTracking(options.trackers ?? [], {
    directory: runDir,
    options: describeOptions(options) as Readonly<Record<string, unknown>>,
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
    readSchedule: async () => {
      if (!resumed || !state?.schedule) return undefined;
      const groups = state.schedule.finished.length > 0 ? await readGroups(resumed.path) : [];
      const finished = await Promise.all(
        state.schedule.finished.map(async (ticket, at) => {
          const { index, task } = await run.taskAt(ticket.place);
          return { ...ticket, group: withTask(groups[at]!, index, task) };
        }),
      );
      return { ...state.schedule, finished };
    },
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
    updateOptions: (at) => ({
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
    }),
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
      if (update.skipped?.weightsBroken) {
        await loadModels(models, (await readLatestCheckpoint(runDir))?.path ?? model);
      } else await refreshReference(models, step + 1, runDir);
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
      await writeEvaluations(runDir, at, evaluated, describeOptions(options));
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
        schedule: schedule && {
          ...schedule,
          finished: schedule.finished.map(({ group: _, ...ticket }) => ticket),
        },
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
        if (step > checkpointed && !signal?.aborted) await run.checkpoint();
      } finally {
        machine.close();
        load.close();
        await Promise.all([closeAll(), tracking.close(finished ? 'finished' : 'stopped')]);
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

async function openDirectory<T extends Task>(options: ResolvedOptions<T>): Promise<Checkpoint | undefined> {
  const { runDir, resume } = options;
  const described = describeOptions(options);
  if (!resume) {
    await createRunDirectory(runDir, described);
    return undefined;
  }
  if (!existsSync(runPaths(runDir).options)) {
    throw new ConfigError(`${runDir} holds no run to resume; leave out resume (--resume) to start one there`);
  }
  const checkpoint = await readLatestCheckpoint(runDir);
  await discardPast(runDir, checkpoint?.step ?? -1, new Date().toISOString().replaceAll(':', '-'));
  await writeOptions(runDir, described);
  return checkpoint;
}

/** Whether new weights may reach servers while they work on training groups. */
const overlaps = <T>({ mode }: Pick<ResolvedOptions<T>, 'mode'>) =>
  isOffPolicy(mode) && mode.kind !== 'one-step-off';

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

export function validationSets<T>({ validation }: ResolvedOptions<T>): Readonly<Record<string, Dataset<T>>> {
  if (validation === undefined) return {};
  const isDataset = (value: object): value is Dataset<T> =>
    'rows' in value && typeof value.rows === 'function';
  return isDataset(validation) ? { validation } : validation;
}

/** Mean reward of a group's attempts, held within 0 and 1: what the sampler ranks tasks by. */
function successOf<T>(group: Group<T>): number {
  const rewards = group.attempts.flatMap((attempt) => attempt.reward ?? []);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  return Math.min(1, Math.max(0, mean));
}

function adamAt<T>({ optimizer, steps }: ResolvedOptions<T>, step: number) {
  const share = learningRateShare(
    {
      shape: optimizer.schedule,
      warmupSteps: optimizer.warmupSteps,
      totalSteps: steps,
      floor: optimizer.finalShare,
    },
    step - 1,
  );
  const { beta1, beta2, epsilon, weightDecay, clipNorm } = optimizer;
  return { learningRate: optimizer.learningRate * share, beta1, beta2, epsilon, weightDecay, clipNorm };
}

function firstStepNotices(metrics: Metrics, hasTools: boolean): string[] {
  const notices: string[] = [];
  if (hasTools && metrics['tools/calls'] === 0) {
    notices.push(
      'In step 1 no trajectory called a tool, though the agent has some. A model that never calls cannot learn to: ' +
        'look at a prompt with `rollcall preview`, show the call format in the prompt, or warm-start with `rollcall sft`.',
    );
  }
  if ((metrics['groups/without_spread'] ?? 0) === (metrics['groups/total'] ?? 0)) {
    notices.push(
      'In step 1 every group got the same reward for all its attempts, so nothing was learned. ' +
        'Look at a few with `rollcall show`; easier tasks, a warm start (rollcall sft) or a partial reward help.',
    );
  }
  return notices;
}

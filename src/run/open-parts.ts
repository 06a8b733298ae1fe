import { existsSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import type { Door } from '../agent/endpoint.ts';
import type { ChatFormat } from '../chat/format.ts';
import { createSampler, type Sampler } from '../dataset/sampler.ts';
import { publishToDisk } from '../engine/disk-weights.ts';
import { embedded } from '../engine/embedded.ts';
import { ConfigError } from '../errors.ts';
import { type Gateway, gateway } from '../gateway/gateway.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { checkLogprobs } from '../inference/check-server.ts';
import type { ServerInfo } from '../inference/server.ts';
import type { Clock } from '../lib/clock.ts';
import { readImageProcessor } from '../lib/images/processor.ts';
import { hashSeed } from '../lib/random.ts';
import { keepNamedSecrets } from '../lib/secrets.ts';
import { describeOptions } from '../options/describe.ts';
import type { ResolvedOptions } from '../options.ts';
import { openDoor } from '../serve/endpoint/door.ts';
import { type ImageBlobs, imageBlobs } from '../services/image-blobs.ts';
import type { Algorithm, CriticOptions } from '../training/algorithm.ts';
import { USUAL } from '../training/algorithm-settings.ts';
import { checkAlgorithm } from '../training/check-algorithm.ts';
import type { Trainer, TrainerFactory } from '../training/trainer.ts';
import {
  type Checkpoint,
  createRunDirectory,
  discardPast,
  readLatestCheckpoint,
  runPaths,
  writeOptions,
} from '../watch/run-directory.ts';
import { reasonOf, writeRunEnd } from '../watch/run-end.ts';
import { lockRun } from '../watch/run-lock.ts';
import { algorithmFor } from './algorithm-for.ts';
import { findSpeaking, openChatFormat } from './chat-format.ts';
import { checkAbilities, imagesReadBy } from './check-abilities.ts';
import { untrainedTokensNotice } from './untrained-tokens.ts';
import { whileUpdatingIn } from './while-updating.ts';

/** What a run is made of. */
export interface Parts<T> {
  /** The state from which the run continues. */
  readonly resumed: Checkpoint | undefined;
  readonly format: ChatFormat;
  readonly images: ImageBlobs;
  /** Where clients from outside come in. */
  readonly door: Door;
  readonly trainer: Trainer;
  readonly reference: Trainer | undefined;
  readonly critic: Trainer | undefined;
  readonly server: Gateway;
  readonly sendFirst: boolean;
  readonly sampler: Sampler<T>;
  readonly algorithm: Algorithm;
  /** Said with the first step. */
  readonly notices: readonly string[];
  /** With the error that kept the run from starting, if there was one: the run directory keeps it. */
  close(error?: unknown): Promise<void>;
}

/** Opens a run's directory, models and servers, and checks that they can do what the algorithm asks. */
export async function openParts<T extends object>(
  options: ResolvedOptions<T>,
  clock: Clock,
): Promise<Parts<T>> {
  const { signal } = options;
  keepNamedSecrets(process.env);
  const { algorithm, notice: changed } = algorithmFor(options.algorithm ?? USUAL(), options);
  const trainers: TrainerFactory = options.trainer ?? embedded().trainer;
  const from: ServerFactory = options.servers ?? trainers.servers ?? embedded().servers;
  const hasTools = options.agent.tools.length > 0;
  await options.agent.prepare?.();
  const { directory: model, format } = await openChatFormat(options.model, {
    trustPrompt: options.trustPrompt,
    tools: hasTools,
    chat: options.chat,
    signal,
  });
  // Only now: a model that is not found leaves no trace.
  const opened: { close(): Promise<void> }[] = [await lockRun(options.runDir)];
  const processor = readImageProcessor(model);
  const images = imageBlobs(runPaths(options.runDir).blobs, {
    processor,
    decodes: (from.decodesImages || trainers.decodesImages) ?? false,
  });
  const open = async (resource: Promise<Trainer>) => {
    const ready = await resource;
    opened.push(ready);
    return ready;
  };
  let openedAt: number | undefined;
  const close = async (error?: unknown) => {
    // Before the lock goes; a directory that could not be opened is another run's.
    if (error !== undefined && openedAt !== undefined) {
      const end = { state: 'failed', step: openedAt, ...reasonOf(error) } as const;
      await writeRunEnd(options.runDir, end).catch(() => {});
    }
    await Promise.allSettled(opened.splice(0).map((resource) => resource.close()));
  };
  try {
    const resumed = await openDirectory(options);
    openedAt = resumed?.step ?? 0;
    const valueHead = algorithm.critic?.shared ?? false;
    const { read: readImage } = images;
    const policy = await open(trainers.open('policy', model, { valueHead, readImage }));
    const setting = {
      can: policy.can,
      attemptsPerTask: options.attemptsPerTask,
      tokensPerTrajectory: options.limits.tokensPerTrajectory,
      rewardNames: options.rewards.map((reward) => reward.name),
      temperature: options.sampling.temperature,
    };
    checkAlgorithm(algorithm, setting);
    const sendsAdapter = from.disk?.send === 'adapter';
    const servers = await from.open(model, {
      readImage,
      logDirectory: runPaths(options.runDir).servers,
      arithmetic: policy.arithmetic,
      loraRank: sendsAdapter ? Number((await policy.adapter?.())?.config['r']) : undefined,
      signal,
    });
    opened.push(...servers);
    const infos = await Promise.all(servers.map((server) => server.info()));
    for (const info of infos) checkLogprobs(info, options.sampling);
    const send = from.disk?.send ?? usualSending(policy, infos);
    const byMemory = send === 'weights' && infos.every(({ can }) => can.has('memory'));
    const trainer =
      policy.publishes === 'memory' && !byMemory
        ? await open(publishToDisk(policy, { model, ...from.disk, send }))
        : policy;
    const { mode, tasks } = options;
    const { clipNorm } = options.optimizer;
    await checkAbilities({ trainer, servers: infos, factory: from, mode, clipNorm, tasks });
    const whileUpdating = whileUpdatingIn(mode, from.gateway?.whileUpdating, infos);
    const server = gateway(servers, {
      clock,
      ...from.gateway,
      ...(whileUpdating ? { whileUpdating } : {}),
      signal,
    });
    const door = openDoor({
      ...options.endpoint,
      constrains: infos.every(({ can }) => can.has('constraint')),
      isUpdating: () => server.isUpdating,
    });
    opened.push(door);
    const reference = algorithm.kl ? await open(trainers.open('reference', model, { readImage })) : undefined;
    const openCritic = async ({ model: own, shared }: CriticOptions) => {
      if (shared) return trainer;
      const folder = own === undefined ? model : await findSpeaking(own, format, signal);
      return open(trainers.open('critic', folder, { readImage }));
    };
    const critic = algorithm.critic && (await openCritic(algorithm.critic));
    if (critic) checkAlgorithm(algorithm, { ...setting, criticCan: critic.can });
    const order = options.order ?? { kind: 'shuffle' };
    const sampler = await createSampler(options.tasks, order, hashSeed(options.seed, 'tasks'));
    const sendFirst = from.sendsFirst ?? false;
    tellHeap(options);
    const untrained = hasTools ? untrainedTokensNotice(model, format) : undefined;
    return {
      resumed,
      format,
      images: imagesReadBy(images, trainer, infos),
      door,
      trainer,
      reference,
      critic,
      server,
      sendFirst,
      sampler,
      algorithm,
      notices: [changed, untrained].filter((notice) => notice !== undefined),
      close,
    };
  } catch (error) {
    await close(error);
    throw error;
  }
}

async function openDirectory<T extends object>(options: ResolvedOptions<T>): Promise<Checkpoint | undefined> {
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
  for (const damage of checkpoint?.damaged ?? []) {
    teller(options)(
      `${damage}; the run continues from step ${checkpoint!.step}, and repeats what came after`,
    );
  }
  await discardPast(runDir, checkpoint?.step ?? -1, new Date().toISOString().replaceAll(':', '-'));
  await writeOptions(runDir, described);
  return checkpoint;
}

/** Of an open trajectory with a short dialogue; `npm run prove soak` measures it. */
const HEAP_PER_TRAJECTORY = 21_000;

/** Where so many trajectories would not fit into this process, that is told before they are opened. */
function tellHeap<T>(options: ResolvedOptions<T>): void {
  const { heap_size_limit: limit } = getHeapStatistics();
  const most = Math.floor((0.7 * limit) / HEAP_PER_TRAJECTORY);
  if (options.concurrency <= most) return;
  teller(options)(
    `concurrency is ${options.concurrency}; about ${most} short trajectories fit into the heap of this process ` +
      `(${(limit / 1e9).toFixed(1)} GB). Start it with NODE_OPTIONS=--max-old-space-size=MEGABYTES, or lower concurrency.`,
  );
}

/** Says a sentence that cannot wait for the next report. */
export const teller = <T>({ onNotice }: Pick<ResolvedOptions<T>, 'onNotice'>) =>
  onNotice ?? ((notice: string) => process.emitWarning(notice, 'RollcallWarning'));

/** In this process an adapter is sent alone: no copy of the whole weights is made for a version. */
const usualSending = ({ can }: Trainer, servers: readonly ServerInfo[]) =>
  can.has('lora') && servers.every((server) => server.can.has('memory') && server.can.has('lora'))
    ? 'adapter'
    : 'weights';

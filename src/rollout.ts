/**
 * Many trajectories at once. Every attempt at every task advances on its own: while one waits for a tool, others
 * sample. What comes back is in the order of the tasks, whatever finished first, and does not depend on arrival:
 * the seed of a sample is a hash of (run seed, step, task, attempt, reply).
 *
 *   task ─► attempts ─► agent ⇄ chat ⇄ server   runTrajectory: one attempt, until it ends
 *                         └─► rewards           scoreTrajectory
 *                               └─► Group
 */
import { setMaxListeners } from 'node:events';
import type { Agent } from './agent/agent.ts';
import { DEFAULT_LIMITS, type Limits } from './agent/limits.ts';
import { DEFAULT_SAMPLING, type Sampling } from './agent/sampling.ts';
import { causeOf, runTrajectory } from './agent/trajectory.ts';
import { createChat } from './chat/chat.ts';
import type { ChatFormat } from './chat/format.ts';
import type { Rendered } from './chat/transcript.ts';
import { ConfigError, EngineError, RewardError, ToolError } from './errors.ts';
import type { InferenceServer } from './inference/server.ts';
import { type Clock, realClock, sleep } from './lib/clock.ts';
import type { ImageBlobs } from './lib/image-blobs.ts';
import { semaphore } from './lib/semaphore.ts';
import type { Reward } from './reward/reward.ts';
import { checkOwnRewards, checkRewards, scoreTogether, scoreTrajectory } from './reward/score.ts';
import type { End, Group, Message, Scored, Task, ToolSchema, Trajectory } from './types.ts';

export interface RolloutOptions<T = Task> {
  /** With each task its position in the dataset: its name in seeds, ids and logs. */
  readonly tasks: readonly { readonly index: number; readonly task: T }[];
  readonly attempts: number;
  readonly step: number;
  readonly agent: Agent<T>;
  /** An inference server, or a gateway in front of several. */
  readonly server: Pick<InferenceServer, 'generate' | 'ended'>;
  readonly format: ChatFormat;
  readonly rewards: readonly Reward<T>[];
  readonly limits?: Partial<Limits>;
  readonly sampling?: Partial<Sampling>;
  /** The run's seed. */
  readonly seed: number;
  /** First part of trajectory ids. */
  readonly name?: string;
  /** The validation set that the tasks are of; their ids are kept apart from those of training. */
  readonly evaluation?: string;
  /** Trajectories in progress at once. */
  readonly concurrency?: number;
  /** Ends every trajectory as cancelled; the rollout still resolves, with what there is. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** Where images of tasks and tools are kept; without it there are none. */
  readonly images?: ImageBlobs | undefined;
  /** The first agent that throws stops the rollout with an error: for `preview` and the first step. */
  readonly stopOnAgentFailure?: boolean;
  /** More than this share of attempts failed for one cause: the rollout throws and names it. */
  readonly tolerateFailedShare?: number;
  /** Tries after the first, of a trajectory whose environment failed and of a reward. */
  readonly retries?: number;
  /** Called as each attempt ends, in order of arrival. */
  onTrajectory?(scored: Scored<T>): void;
  onProgress?(progress: RolloutProgress): void;
}

export interface RolloutProgress {
  readonly finished: number;
  readonly running: number;
  readonly total: number;
  readonly sampledTokens: number;
}

/** Groups in the order of `tasks`, attempts in order. Failed attempts are in their groups, without a reward. */
export async function rollout<T = Task>(options: RolloutOptions<T>): Promise<Group<T>[]> {
  const { tasks, attempts, step } = options;
  const rolling = openRollout(options);
  rolling.begin(tasks.length * attempts);
  const groups = await Promise.all(
    tasks.map(({ index, task }) => rolling.group({ index, task, step, firstAttempt: 0, attempts })),
  );
  rolling.throwIfTooMany();
  return rolling.scoreBatch(groups);
}

/** One group to roll out. */
interface GroupToRoll<T> {
  readonly index: number;
  readonly task: T;
  readonly step: number;
  /** Attempts are numbered from here. */
  readonly firstAttempt: number;
  readonly attempts: number;
  /** The group is the first so many attempts that end without failing, and the rest is cancelled; default all. */
  readonly wanted?: number;
  readonly signal?: AbortSignal;
}

/** A rollout group by group: what all of them share is opened once. */
export interface Rollout<T> {
  /** A step begins: progress and failures are counted from 0, against so many attempts. */
  begin(attempts: number, options?: { readonly stopOnAgentFailure?: boolean }): void;
  group(request: GroupToRoll<T>): Promise<Group<T>>;
  /** Rewards that see a whole batch. */
  scoreBatch(groups: readonly Group<T>[]): Promise<Group<T>[]>;
  throwIfTooMany(): void;
}

export function openRollout<T>(options: Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'step'>): Rollout<T> {
  checkRewards(options.rewards);
  const { clock = realClock(), concurrency = 256, rewards, retries = 2 } = options;
  const slots = semaphore(concurrency);
  const stop = new AbortController();
  const stopping = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  setMaxListeners(0, stopping); // every trajectory listens
  let progress = progressOf(options, 0);
  const failures = failureWatch(options);
  const scoredAlone = rewards.every(({ kind }) => kind === 'trajectory');

  return {
    begin: (attempts, { stopOnAgentFailure = options.stopOnAgentFailure ?? false } = {}) => {
      progress = progressOf(options, attempts);
      failures.begin(attempts, stopOnAgentFailure);
    },
    group: async ({ index, task, step, firstAttempt, attempts, wanted = attempts, signal: cancel }) => {
      const enough = new AbortController();
      const stopped = cancel ? AbortSignal.any([stopping, cancel]) : stopping;
      const signal = AbortSignal.any([stopped, enough.signal]);
      setMaxListeners(0, stopped);
      setMaxListeners(0, signal);
      const shared = { taskIndex: index, task, clock, signal, queuedAt: clock.now() };
      const renderPrompt = renderedOnce(options.format);
      const ended: Scored<T>[] = [];
      let good = 0;
      const attempt = async (number: number) => {
        const counted = progress;
        counted.started();
        const scored = await attemptTask({ ...options, retries }, step, {
          ...shared,
          attempt: firstAttempt + number,
          renderPrompt,
        });
        counted.ended(scored);
        if (scoredAlone) options.onTrajectory?.(scored);
        if (failures.add(scored.trajectory)) stop.abort('the rollout failed');
        ended.push(scored);
        if (scored.trajectory.end.kind !== 'failed' && ++good === wanted && wanted < attempts)
          enough.abort('enough attempts of its group are done');
      };
      await Promise.all(Array.from({ length: attempts }, (_, number) => slots.run(() => attempt(number))));
      const first = firstOf(ended, wanted);
      const scored = await scoreBeside(first, 'group', { rewards, retries }, clock, stopped);
      return { taskIndex: index, task, attempts: scored };
    },
    scoreBatch: async (groups) => {
      const scored = await scoreBatch(groups, { rewards, retries }, clock, stopping);
      if (scoredAlone) return scored;
      for (const attempt of scored.flatMap((group) => group.attempts)) {
        options.onTrajectory?.(attempt);
        const { end } = attempt.trajectory;
        if (end.kind === 'failed' && end.boundary === 'reward') failures.add(attempt.trajectory);
      }
      failures.throwIfTooMany();
      return scored;
    },
    throwIfTooMany: failures.throwIfTooMany,
  };
}

/** The first `wanted` that did not fail, completed by failed ones where there are too few; in order of attempt. */
function firstOf<T>(ended: readonly Scored<T>[], wanted: number): Scored<T>[] {
  const failed = (scored: Scored<T>) => (scored.trajectory.end.kind === 'failed' ? 1 : 0);
  return [...ended]
    .sort((one, other) => failed(one) - failed(other)) // stable: in the order in which they ended
    .slice(0, wanted)
    .sort((one, other) => one.trajectory.attempt - other.trajectory.attempt);
}

/** Rewards that see a whole batch come last, in the order of the tasks. */
async function scoreBatch<T>(
  groups: readonly Group<T>[],
  options: Scoring<T>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Group<T>[]> {
  const all = groups.flatMap((group) => group.attempts);
  const scored = await scoreBeside(all, 'batch', options, clock, signal);
  let next = 0;
  return groups.map((group) => ({ ...group, attempts: group.attempts.map(() => scored[next++]!) }));
}

interface Scoring<T> {
  readonly rewards: readonly Reward<T>[];
  readonly retries: number;
}

async function scoreBeside<T>(
  attempts: readonly Scored<T>[],
  kind: 'group' | 'batch',
  { rewards, retries }: Scoring<T>,
  clock: Clock,
  signal: AbortSignal,
): Promise<readonly Scored<T>[]> {
  try {
    return await scoreTogether(attempts, kind, rewards, { clock, retries, signal });
  } catch (error) {
    const end = endOfScoring(error, signal);
    return attempts.map((attempt) =>
      attempt.reward === undefined || attempt.trajectory.ownReward !== undefined
        ? attempt
        : unscored(attempt.trajectory, end),
    );
  }
}

type AttemptOptions<T> = Omit<RolloutOptions<T>, 'tasks' | 'attempts' | 'step'> & Scoring<T>;

interface AttemptSetup<T> {
  readonly taskIndex: number;
  readonly task: T;
  readonly attempt: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly queuedAt: number;
  readonly renderPrompt: (messages: readonly Message[], tools: readonly ToolSchema[]) => Rendered;
}

/** One attempt and its score. A failed environment is tried again from the start; the rest is final. */
async function attemptTask<T>(
  options: AttemptOptions<T>,
  step: number,
  setup: AttemptSetup<T>,
): Promise<Scored<T>> {
  const { agent, server, format, seed, retries, evaluation } = options;
  const name = evaluation === undefined ? (options.name ?? 'train') : `evaluation/${evaluation}`;
  const { taskIndex, attempt, clock, signal } = setup;
  for (let failed = 0; ; failed++) {
    const ended = await runTrajectory<T>({
      ...setup,
      id: `${name}/step-${step}/task-${taskIndex}/attempt-${attempt}`,
      step,
      seed,
      agent,
      server,
      format,
      createChat,
      images: options.images,
      tokens: {
        encode: (text) => format.encodeText(text),
        decode: (ids) => format.decode(Int32Array.from(ids)),
      },
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      sampling: { ...DEFAULT_SAMPLING, ...options.sampling },
    });
    const trajectory = evaluation === undefined ? ended : { ...ended, evaluation };
    const { end } = trajectory;
    const again =
      end.kind === 'failed' && end.boundary === 'environment' && failed < retries && !signal.aborted;
    if (!again) return score(trajectory, options, setup);
    await sleep(clock, 250 * 2 ** failed, signal).catch(() => {}); // aborted: the next try ends as cancelled
  }
}

async function score<T>(
  trajectory: Trajectory<T>,
  { rewards, format, retries }: AttemptOptions<T>,
  { clock, signal }: AttemptSetup<T>,
): Promise<Scored<T>> {
  if (trajectory.end.kind === 'failed' || trajectory.end.kind === 'cancelled') return unscored(trajectory);
  const { ownReward } = trajectory;
  try {
    checkOwnRewards(trajectory);
    if (ownReward !== undefined) return { trajectory, rewards: { agent: ownReward }, reward: ownReward };
    const {
      rewards: values,
      reward,
      spans,
    } = await scoreTrajectory(trajectory, rewards, {
      clock,
      retries,
      signal,
      solutionOf: (one) => solutionOf(one, format),
    });
    return {
      trajectory: { ...trajectory, spans: [...trajectory.spans, ...spans] },
      rewards: values,
      reward,
    };
  } catch (error) {
    return unscored(trajectory, endOfScoring(error, signal));
  }
}

function endOfScoring(error: unknown, signal: AbortSignal): End {
  if (signal.aborted) return { kind: 'cancelled', why: reasonOf(signal) };
  if (!(error instanceof RewardError)) throw error;
  return { kind: 'failed', boundary: 'reward', message: error.message };
}

/** What follows the first prompt, results included, as text without special tokens. */
function solutionOf({ segments, text }: Trajectory<unknown>, format: ChatFormat): string {
  const last = segments.at(-1);
  const begin = last?.sampled.indexOf(1) ?? -1;
  return last && begin >= 0 ? format.parseReply(last.ids.slice(begin), []).text : text;
}

const unscored = <T>(trajectory: Trajectory<T>, end: End = trajectory.end): Scored<T> => ({
  trajectory: { ...trajectory, end },
  rewards: {},
  reward: undefined,
});

/** A task's first prompt is rendered and tokenised once, for all its attempts. */
function renderedOnce(format: ChatFormat): AttemptSetup<unknown>['renderPrompt'] {
  const prompts = new Map<string, Rendered>();
  return (messages, tools) => {
    const key = JSON.stringify([messages, tools]);
    const known = prompts.get(key);
    if (known) return known;
    const prompt = format.renderPrompt(messages, tools);
    if (tools.length > 0) checkToolsAreTold(format.decode(prompt.ids), tools);
    prompts.set(key, prompt);
    return prompt;
  };
}

/** Nothing is silently off: a tool that the prompt does not name would never be called. */
function checkToolsAreTold(prompt: string, tools: readonly ToolSchema[]): void {
  const untold = tools.map((tool) => tool.function.name).filter((name) => !prompt.includes(name));
  if (untold.length === 0) return;
  throw new ConfigError(
    `the first prompt does not tell the model of ${untold.join(', ')}: this chat template writes no tools. Use one that ` +
      'does, or describe them in the prompt',
  );
}

function progressOf<T>({ onProgress }: Pick<RolloutOptions<T>, 'onProgress'>, total: number) {
  let finished = 0;
  let running = 0;
  let sampledTokens = 0;
  const tell = () => onProgress?.({ finished, running, total, sampledTokens });
  return {
    started: () => {
      running++;
      tell();
    },
    ended: ({ trajectory }: Scored<T>) => {
      running--;
      finished++;
      for (const { sampled } of trajectory.segments)
        sampledTokens += sampled.reduce((sum, one) => sum + one, 0);
      tell();
    },
  };
}

/** Counts failures by cause; says when there are too many, and throws the error that names cause and example. */
function failureWatch<T>({ tolerateFailedShare = 0.5 }: Pick<RolloutOptions<T>, 'tolerateFailedShare'>) {
  let total = 0;
  let stopOnAgentFailure = false;
  const examples = new Map<string, { readonly id: string; readonly message: string; count: number }>();
  let fatal: Error | undefined;
  return {
    begin: (attempts: number, stops: boolean) => {
      total = attempts;
      stopOnAgentFailure = stops;
      examples.clear();
    },
    add: ({ id, end }: Trajectory<T>): boolean => {
      if (end.kind !== 'failed' || fatal) return false;
      const seen = examples.get(end.boundary) ?? { id, message: end.message, count: 0 };
      examples.set(end.boundary, seen);
      seen.count++;
      if (end.boundary === 'agent' && stopOnAgentFailure) {
        fatal = new ConfigError(`the agent threw in trajectory ${id}: ${end.message}`, {
          cause: causeOf(end),
        });
      } else if (seen.count > tolerateFailedShare * total) {
        const what = `${seen.count} of ${total} attempts failed (${end.boundary}), more than the tolerated share of ${tolerateFailedShare}`;
        fatal = new ERROR_OF[end.boundary](`${what}; for example ${seen.id}: ${seen.message}`);
      }
      return fatal !== undefined;
    },
    throwIfTooMany: () => {
      if (fatal) throw fatal;
    },
  };
}

const ERROR_OF = {
  infrastructure: EngineError,
  environment: ToolError,
  agent: ConfigError,
  reward: RewardError,
} as const;

function reasonOf({ reason }: AbortSignal): string {
  return reason instanceof Error ? reason.message : String(reason);
}

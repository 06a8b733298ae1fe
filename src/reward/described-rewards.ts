import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { requestLimiter } from '../services/rate-limit.ts';
import { openSandbox } from '../services/sandbox/open-sandbox.ts';
import {
  type Boundary,
  SANDBOX_LANGUAGES,
  type Sandbox,
  type SandboxLanguage,
} from '../services/sandbox/sandbox.ts';
import { sandboxServer } from '../services/sandbox/sandbox-server.ts';
import { runsCode, type Scorer, scorerNamed, scorerOfSource } from './by-data-source.ts';
import { codeTests } from './code.ts';
import { openComputeReward } from './compute-reward.ts';
import { openComputeScore } from './compute-score.ts';
import { describedJudge, JUDGE_NAMES } from './described-judge.ts';
import {
  type Reward,
  type RewardContext,
  type RewardValue,
  reward,
  type TrajectoryReward,
} from './reward.ts';
import { rewardModel } from './reward-model.ts';
import { type Shaping, shapingReward } from './shaping.ts';

/** Rewards as data says them: a module of the user's, a ready one by name, or that of each row. */
export interface RewardsDescription {
  /** A module with `compute_score(data_source, solution_str, ground_truth, extra_info)`; absent: ready ones. */
  readonly module: string | null;
  /** Export of the module; without one, a ready reward, or `compute_score` for that of the data source. */
  readonly name: string;
  /** What the export is given: one trajectory (verl's compute_score), or all of a step (compute_reward). */
  readonly over: 'trajectory' | 'batch';
  /** Further arguments of it. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Threads of the module. */
  readonly concurrency: number;
  readonly timeoutSeconds: number;
  readonly limits: {
    readonly concurrency: number | null;
    readonly requestsPerMinute: number | null;
    readonly tokensPerMinute: number | null;
    readonly tokensPerRequest: number;
  };
  /** A reward model's server; without a module or a name it is what scores. */
  readonly model: { readonly url: string | null; readonly name: string };
  /** Where rewards run code; absent: on this machine. */
  readonly sandbox: { readonly url: string | null; readonly concurrency: number; readonly memoryMiB: number };
  readonly shaping: Shaping & { readonly enabled: boolean };
}

export interface OpenedRewards {
  readonly rewards: readonly Reward<TaskRow>[];
  /** The one that says what is correct; a ranking does not. */
  readonly correct?: TrajectoryReward<TaskRow>;
  /** Refuses, before anything starts, a row that nothing can score. */
  check(row: Pick<TaskRow, 'reward' | 'dataSource' | 'groundTruth'>): void;
  /** After all rows were checked: opens what they need. */
  prepare(): Promise<void>;
  close(): Promise<void>;
}

const DEFAULT_NAME = 'compute_score';

export async function openDescribedRewards(
  described: RewardsDescription,
  { directory, clock }: { readonly directory: string; readonly clock: Clock },
): Promise<OpenedRewards> {
  const { module, name, config, concurrency, timeoutSeconds, shaping, model } = described;
  const shaped = shaping.enabled ? [shapingReward<TaskRow>(shaping)] : [];
  const judge = module === null ? JUDGE_NAMES.find((one) => one === name) : undefined;
  if (judge) {
    const { concurrency: atOnce, requestsPerMinute, tokensPerMinute } = described.limits;
    const limits = { max_concurrent: atOnce, max_rpm: requestsPerMinute, max_tpm: tokensPerMinute };
    const own = describedJudge({
      name: judge,
      config: { ...limits, ...config },
      directory,
      secondsPerRequest: timeoutSeconds,
    });
    return {
      rewards: [own, ...shaped],
      ...(own.kind === 'trajectory' && { correct: own }),
      check: () => {},
      prepare: async () => {},
      close: async () => {},
    };
  }
  if (described.over === 'batch') {
    if (module === null)
      throw new ConfigError('rewards.over is batch, which needs rewards.module and rewards.name');
    const own = await openComputeReward({
      ...{ path: module, name, directory, workers: concurrency, config },
      timeoutMs: 1000 * timeoutSeconds,
    });
    return {
      rewards: [own.reward, ...shaped],
      check: () => {},
      prepare: async () => {},
      close: own.close,
    };
  }
  const named = module === null && name !== DEFAULT_NAME ? scorerNamed(name) : undefined;
  const isModelled = model.url !== null && module === null && !named;
  const computed =
    module === null
      ? undefined
      : await openComputeScore({
          ...{ path: module, name, directory, workers: concurrency },
          config: { ...config, ...(model.url !== null && routerOf(model.url, model.name)) },
        });
  const sandboxOf = lazySandbox(described);
  const scorerOf = ({ reward: own, dataSource }: Pick<TaskRow, 'reward' | 'dataSource'>): Scorer =>
    named ?? (own === undefined ? scorerOfSource(dataSource) : scorerNamed(own));
  const score = computed ? computed.score : ready(scorerOf, sandboxOf.get);
  const options = { timeoutMs: 1000 * timeoutSeconds };
  const own = isModelled
    ? rewardModel<TaskRow>({ url: model.url!, model: model.name, name: 'score', ...options, clock })
    : reward<TaskRow>('score', score, options);
  const correct = { ...own, score: limited((context) => own.score(context), described.limits, clock) };
  return {
    rewards: [correct, ...shaped],
    correct,
    check: (row) => {
      if (computed || isModelled) return;
      const scorer = scorerOf(row);
      const { dataSource, groundTruth } = row;
      if (groundTruth === undefined) {
        throw new ConfigError(
          `the row${dataSource === undefined ? '' : ` of ${dataSource}`} has no reward_model.ground_truth, which its ready reward compares with`,
        );
      }
      if (runsCode(scorer)) sandboxOf.need(codeTests(groundTruth).language);
    },
    prepare: async () => {
      await sandboxOf.open();
    },
    close: async () => {
      await computed?.close();
      await sandboxOf.close();
    },
  };
}

/** verl tells a custom reward function where the reward model answers. */
const routerOf = (url: string, name: string) => ({
  reward_router_address: new URL(url).host,
  reward_model_name: name,
});

type Score = (context: RewardContext<TaskRow>) => RewardValue | Promise<RewardValue>;

const ready =
  (scorerOf: (row: TaskRow) => Scorer, sandbox: (language?: string) => Sandbox): Score =>
  ({ task, trajectory, signal }) =>
    scorerOf(task)({ solution: trajectory.text, truth: task.groundTruth, sandbox, signal });

function limited(score: Score, limits: RewardsDescription['limits'], clock: Clock): Score {
  const { concurrency, requestsPerMinute, tokensPerMinute, tokensPerRequest } = limits;
  if (concurrency === null && requestsPerMinute === null && tokensPerMinute === null) return score;
  const limiter = requestLimiter(
    {
      ...(concurrency !== null && { concurrency }),
      ...(requestsPerMinute !== null && { requestsPerMinute }),
      ...(tokensPerMinute !== null && { tokensPerMinute }),
    },
    clock,
  );
  return (context) =>
    limiter.run(async () => score(context), { tokens: tokensPerRequest, signal: context.signal });
}

/** One for each language that rows need, opened before the start, so that a platform without it gets its error then. */
function lazySandbox({ config, sandbox: { url, concurrency, memoryMiB } }: RewardsDescription) {
  const { language: usual = 'python', boundary } = config;
  const needed = new Set<SandboxLanguage>();
  const opened = new Map<string, Sandbox>();
  const languageOf = (name: unknown): SandboxLanguage => {
    const known = SANDBOX_LANGUAGES.find((one) => one === name);
    if (known) return known;
    throw new ConfigError(`code in ${String(name)} cannot be run; use ${SANDBOX_LANGUAGES.join(', ')}`);
  };
  return {
    need: (language: unknown = usual) => needed.add(languageOf(language)),
    open: async () => {
      for (const language of needed) {
        const sandbox =
          url === null
            ? await openSandbox(language, boundary === undefined ? {} : { boundary: boundary as Boundary })
            : sandboxServer({ url, language, concurrency, memoryMiB });
        opened.set(language, sandbox);
      }
    },
    get: (language: unknown = usual) => {
      const sandbox = opened.get(languageOf(language));
      if (sandbox) return sandbox;
      throw new ConfigError(
        `a row needs a sandbox for ${String(language)} that was not opened before the start`,
      );
    },
    close: async () => {
      await Promise.all([...opened.values()].map((sandbox) => sandbox.close()));
    },
  };
}

import type { TaskRow } from '../dataset/task-row.ts';
import { ConfigError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import { requestLimiter } from '../lib/rate-limit.ts';
import { type Boundary, openSandbox, type Sandbox } from '../lib/sandbox/sandbox.ts';
import { runsCode, type Scorer, scorerNamed, scorerOfSource } from './by-data-source.ts';
import { openComputeScore } from './compute-score.ts';
import { type RewardContext, type RewardValue, reward, type TrajectoryReward } from './reward.ts';
import { type Shaping, shapingReward } from './shaping.ts';

/** Rewards as data says them: a module of the user's, a ready one by name, or that of each row's data source. */
export interface RewardsDescription {
  /** A module with `compute_score(data_source, solution_str, ground_truth, extra_info)`; absent: ready ones. */
  readonly module: string | null;
  /** Export of the module; without one, a ready reward, or `compute_score` for that of the data source. */
  readonly name: string;
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
  readonly shaping: Shaping & { readonly enabled: boolean };
}

export interface OpenedRewards {
  /** The one that says what is correct comes first. */
  readonly rewards: readonly [TrajectoryReward<TaskRow>, ...TrajectoryReward<TaskRow>[]];
  /** Refuses, before anything starts, data sources that nothing can score. */
  check(sources: Iterable<string | undefined>): Promise<void>;
  close(): Promise<void>;
}

const DEFAULT_NAME = 'compute_score';

export async function openDescribedRewards(
  described: RewardsDescription,
  { directory, clock }: { readonly directory: string; readonly clock: Clock },
): Promise<OpenedRewards> {
  const { module, name, config, concurrency, timeoutSeconds, shaping } = described;
  const computed =
    module === null
      ? undefined
      : await openComputeScore({ path: module, name, config, directory, workers: concurrency });
  const named = module === null && name !== DEFAULT_NAME ? scorerNamed(name) : undefined;
  const sandboxOf = lazySandbox(config);
  if (named && runsCode(named)) await sandboxOf.open();
  const score = computed ? computed.score : ready((source) => named ?? scorerOfSource(source), sandboxOf.get);
  const own = reward<TaskRow>('score', limited(score, described.limits, clock), {
    timeoutMs: 1000 * timeoutSeconds,
  });
  return {
    rewards: [own, ...(shaping.enabled ? [shapingReward<TaskRow>(shaping)] : [])],
    check: async (sources) => {
      if (module !== null || named) return;
      for (const source of new Set(sources)) if (runsCode(scorerOfSource(source))) await sandboxOf.open();
    },
    close: async () => {
      await computed?.close();
      await sandboxOf.close();
    },
  };
}

type Score = (context: RewardContext<TaskRow>) => RewardValue | Promise<RewardValue>;

const ready =
  (scorer: (source: string | undefined) => Scorer, sandbox: () => Sandbox): Score =>
  ({ task, trajectory, signal }) =>
    scorer(task.dataSource)({ solution: trajectory.text, truth: task.groundTruth, sandbox, signal });

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

/** Opened before the start where it will be needed, so that a platform without one is told then. */
function lazySandbox({ language = 'python', boundary }: Readonly<Record<string, unknown>>) {
  let opened: Sandbox | undefined;
  return {
    open: async () => {
      if (language !== 'python' && language !== 'javascript') {
        throw new ConfigError(`rewards.config.language is ${String(language)}; it is python or javascript`);
      }
      opened ??= await openSandbox(
        language,
        boundary === undefined ? {} : { boundary: boundary as Boundary },
      );
    },
    get: () => {
      if (opened) return opened;
      throw new ConfigError('a row needs a sandbox for code that was not opened before the start');
    },
    close: async () => opened?.close(),
  };
}

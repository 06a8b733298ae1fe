import { arrayDataset, type ChatFormat, evaluate, type Group, type Trajectory } from 'rollcall';
import type { InferenceServer } from 'rollcall/ports';
import { rolloutMetrics } from 'rollcall/trackers';
import { parseOperation } from './calculate.ts';
import type { Problem } from './problems.ts';
import { correct, createSolver, LIMITS } from './solver.ts';

export interface Score {
  readonly accuracy: number;
  /** Share of the calls that could be read and run. */
  readonly validToolCalls: number;
  readonly callsPerTrajectory: number;
}

export interface Measurement {
  readonly score: Score;
  /** Share of the solved problems whose calls build on one another. */
  readonly dependent: number;
  readonly byFamily: Readonly<Record<string, number>>;
  readonly groups: readonly Group<Problem>[];
}

export interface MeasureOptions {
  readonly server: Pick<InferenceServer, 'generate'>;
  readonly format: ChatFormat;
  readonly seed: number;
  /** 0 is greedy. */
  readonly temperature?: number;
  readonly attempts?: number;
  readonly agent?: ReturnType<typeof createSolver>;
  readonly signal?: AbortSignal | undefined;
}

/** What a model makes of problems it was not trained on. */
export async function measure(
  name: string,
  problems: readonly Problem[],
  { server, format, seed, temperature = 0, attempts = 1, agent = createSolver(), signal }: MeasureOptions,
): Promise<Measurement> {
  const { groups } = await evaluate<Problem>({
    name,
    tasks: arrayDataset(problems, name),
    attempts,
    server,
    format,
    agent,
    rewards: [correct],
    limits: LIMITS,
    sampling: { temperature },
    step: 0,
    seed,
    ...(signal ? { signal } : {}),
  });
  return measurementOf(groups);
}

export function measurementOf(groups: readonly Group<Problem>[]): Measurement {
  const metrics = rolloutMetrics(groups as readonly Group[]);
  const attempts = groups.flatMap((group) => group.attempts);
  const solved = attempts.filter(({ reward }) => reward === 1);
  const families = [...new Set(groups.map(({ task }) => task.family))];
  const accuracy = (of: typeof attempts) => share(of, ({ reward }) => reward === 1);
  return {
    score: {
      accuracy: accuracy(attempts),
      validToolCalls: metrics['tools/valid'] ?? 0,
      callsPerTrajectory: (metrics['tools/calls'] ?? 0) / Math.max(1, attempts.length),
    },
    dependent: share(solved, ({ trajectory }) => hasDependentCalls(trajectory)),
    byFamily: Object.fromEntries(
      families.map((family) => [
        family,
        accuracy(attempts.filter(({ trajectory }) => trajectory.task.family === family)),
      ]),
    ),
    groups,
  };
}

/** At least two calls, and one of them takes the result of an earlier one. */
export function hasDependentCalls({ turns }: Pick<Trajectory<unknown>, 'turns'>): boolean {
  const results = new Set<string>();
  for (const { call, result, problem } of turns.flatMap(({ toolRuns }) => toolRuns)) {
    const operation = parseOperation(String(call.arguments['expression']));
    if (operation && (results.has(operation.left) || results.has(operation.right))) return true;
    if (!problem) results.add(String(result));
  }
  return false;
}

function share<V>(items: readonly V[], holds: (item: V) => boolean): number {
  return items.length === 0 ? 0 : items.filter(holds).length / items.length;
}

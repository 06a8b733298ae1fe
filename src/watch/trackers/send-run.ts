import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { ConfigError } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import { withTimeLimit } from '../../lib/time-limit.ts';
import type { Scored } from '../../types.ts';
import { listEvaluations } from '../evaluation-store.ts';
import { readMetrics, runPaths } from '../run-directory.ts';
import { readRunEnd } from '../run-end.ts';
import { trackedImages } from '../shown-images.ts';
import { trajectoryText } from '../shown-text.ts';
import type { TrackedLine, Tracker } from '../tracker.ts';
import { listSteps, readStepIndex, readTrajectory } from '../trajectory-store.ts';
import { trackerMemory } from './memory.ts';
import { someTasks } from './some-tasks.ts';
import { TRACKING_LIMITS } from './tracking.ts';
import { troubleOf } from './trouble.ts';

export interface SentRun {
  readonly lines: number;
  readonly trajectories: number;
}

/**
 * Sends what a run directory holds, at once and in order. Unlike during a run, the first trouble is an error. A
 * tracker that had the run before gets what it misses.
 */
export async function sendRun(
  directory: string,
  tracker: Tracker,
  { decode, clock, signal }: { decode: (ids: Int32Array) => string; clock: Clock; signal?: AbortSignal },
): Promise<SentRun> {
  const paths = runPaths(directory);
  if (!existsSync(paths.options)) {
    throw new ConfigError(`${directory} is not a run directory: it has no options.json`);
  }
  const call = (work: (signal: AbortSignal) => Promise<void> | undefined) =>
    withTimeLimit(async (given) => work(given), {
      milliseconds: tracker.patienceMs ?? TRACKING_LIMITS.callMs,
      clock,
      signal,
    }).catch((error: unknown) => {
      throw new ConfigError(`${directory} cannot be sent: ${tracker.name} ${troubleOf(error)}`, {
        cause: error,
      });
    });
  const { lines, began } = await linesOf(directory, decode);
  const { format: _, ...options } = JSON.parse(await readFile(paths.options, 'utf8')) as Record<
    string,
    unknown
  >;
  const run = {
    directory,
    options,
    resumedAt: undefined,
    clockBegan: began,
    decode,
    memory: trackerMemory(directory),
  };
  await call((given) => tracker.open?.(run, given));
  for (let at = 0; at < lines.length && tracker.log; at += TRACKING_LIMITS.linesPerCall) {
    await call((given) => tracker.log!(lines.slice(at, at + TRACKING_LIMITS.linesPerCall), given));
  }
  let trajectories = 0;
  for (const folder of tracker.trace ? [directory, ...(await listEvaluations(directory))] : []) {
    for (const step of await listSteps(folder)) {
      for await (const some of storedTrajectories(folder, step, tracker.tracedTasksPerStep)) {
        await call((given) => tracker.trace!(some, given));
        trajectories += some.length;
      }
    }
  }
  const end = await readRunEnd(directory);
  await call((given) => tracker.close?.(end?.state === 'finished' ? 'finished' : 'stopped', given));
  return { lines: tracker.log ? lines.length : 0, trajectories };
}

/** Lines say how long the run had gone on; the file's own time says when the last was written. */
async function linesOf(
  directory: string,
  decode: (ids: Int32Array) => string,
): Promise<{ lines: TrackedLine[]; began: number }> {
  const stored = await readMetrics(directory);
  const written = (await stat(runPaths(directory).metrics)).mtimeMs;
  const began = Math.round(written - 1000 * (stored.at(-1)?.seconds ?? 0));
  const steps = new Set(await listSteps(directory));
  const lines: TrackedLine[] = [];
  for (const { step, seconds, metrics } of stored) {
    const first = steps.has(step) ? await firstTrajectory(directory, step) : undefined;
    const images = trackedImages(directory, first?.trajectory);
    const text = trajectoryText(first, decode);
    lines.push({
      step,
      seconds,
      time: began + 1000 * seconds,
      // A number that was not finite is null in JSON.
      metrics: Object.fromEntries(Object.entries(metrics).filter(([, value]) => typeof value === 'number')),
      ...(images.length > 0 && { images }),
      ...(text !== undefined && { text }),
    });
  }
  return { lines, began };
}

async function firstTrajectory(directory: string, step: number) {
  const [entry] = (await readStepIndex(directory, step)).trajectories;
  return entry && (await readTrajectory(directory, step, entry));
}

async function* storedTrajectories(
  directory: string,
  step: number,
  tasks: number | undefined,
): AsyncGenerator<Scored[]> {
  const { trajectories } = await readStepIndex(directory, step);
  const chosen = someTasks(trajectories, ({ taskIndex }) => ({ step, taskIndex }), tasks);
  for (let at = 0; at < chosen.length; at += TRACKING_LIMITS.trajectoriesPerCall) {
    const entries = chosen.slice(at, at + TRACKING_LIMITS.trajectoriesPerCall);
    yield await Promise.all(
      entries.map(async (entry): Promise<Scored> => {
        const { trajectory, segments } = await readTrajectory(directory, step, entry);
        const { rewards, reward, ...rest } = trajectory;
        const whole = segments.map(({ rolloutLogprobs, ...segment }) => ({
          ...segment,
          logprobs: rolloutLogprobs,
          images: [],
        }));
        return { trajectory: { ...rest, segments: whole }, rewards, reward: reward ?? undefined };
      }),
    );
  }
}

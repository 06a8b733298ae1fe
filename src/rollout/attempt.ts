import { DEFAULT_LIMITS } from '../agent/limits.ts';
import { DEFAULT_SAMPLING } from '../agent/sampling.ts';
import { runTrajectory } from '../agent/trajectory.ts';
import { createChat } from '../chat/chat.ts';
import type { ChatFormat } from '../chat/format.ts';
import { sleep } from '../lib/clock.ts';
import type { Scored } from '../types.ts';
import type { SharedOptions } from './options.ts';
import { type Scoring, scoreAttempt } from './score.ts';

/** One attempt of a task. */
export interface AttemptSetup<T> {
  readonly step: number;
  readonly taskIndex: number;
  readonly task: T;
  readonly attempt: number;
  readonly queuedAt: number;
  /** The chat format, which keeps the task's first prompt. */
  readonly format: ChatFormat;
}

/** One attempt and its score. A failed environment is tried again from the start; the rest is final. */
export async function attemptTask<T>(
  options: SharedOptions<T>,
  setup: AttemptSetup<T>,
  scoring: Scoring<T>,
): Promise<Scored<T>> {
  const { agent, seed, evaluation, retrace } = options;
  const { format } = setup;
  const { retries, clock, signal } = scoring;
  const name = evaluation === undefined ? (options.name ?? 'train') : `evaluation/${evaluation}`;
  for (let failed = 0; ; failed++) {
    const ended = await runTrajectory<T>({
      ...setup,
      id: `${name}/step-${setup.step}/task-${setup.taskIndex}/attempt-${setup.attempt}`,
      seed,
      agent,
      server: retrace?.serverFor(options.server) ?? options.server,
      revise: retrace?.revise,
      createChat,
      clock,
      activity: options.activity,
      signal,
      images: options.images,
      door: options.door,
      train: options.train,
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
    if (!again) return scoreAttempt(trajectory, format, scoring);
    await sleep(clock, 250 * 2 ** failed, signal).catch(() => {}); // aborted: the next try ends as cancelled
  }
}

/** A simulated user: it answers the model between turns, and may say how good the last reply was. */

import { RewardError, ToolError } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import { messageOf } from '../../lib/error-message.ts';
import { withTimeLimit } from '../../lib/time-limit.ts';
import type { ImageBlobs } from '../../services/image-blobs.ts';
import type { ImageRef, Message, Task } from '../../types.ts';

type Maybe<R> = R | Promise<R>;
export type InteractionKwargs = Readonly<Record<string, unknown>>;

/** What a simulated user is given: the task and the trajectory so far. */
export interface InteractionContext<State = unknown> {
  /** The trajectory's. */
  readonly id: string;
  readonly task: Task;
  /** The row's `interaction_kwargs`. */
  readonly kwargs: InteractionKwargs;
  /** What `start` made for this trajectory. */
  readonly state: State;
  /** Stores an image with the run, for `images` of an answer. */
  readonly image: ImageBlobs['put'];
  /** The run's clock. */
  readonly clock: Clock;
  /** Aborts at the time limit, and when the trajectory ends. */
  readonly signal: AbortSignal;
}

/** What a user says, what it is worth, and whether the dialogue is over. */
export interface UserTurn {
  /** The dialogue is over; the model does not see `text`. */
  readonly done: boolean;
  readonly text: string;
  /** Shown before the text; made by `context.image`. */
  readonly images?: readonly ImageRef[];
  /** Step reward of the reply that was answered. */
  readonly score?: number;
}

/** A simulated user: its name and its functions. */
export interface InteractionOptions<State> {
  readonly name: string;
  start?(context: Omit<InteractionContext, 'state'>): Maybe<State>;
  respond(messages: readonly Message[], context: InteractionContext<State>): Maybe<UserTurn>;
  /** What the whole dialogue was worth; in `trajectory.extra.userScore`. */
  score?(context: InteractionContext<State>): Maybe<number>;
  /** Once for each start that succeeded, however the trajectory ended. */
  finish?(context: InteractionContext<State>): Maybe<void>;
  /** Time limit of one answer. */
  readonly timeoutMs?: number;
}

/** Made by `interaction()`. */
export interface Interaction extends Omit<InteractionOptions<unknown>, 'timeoutMs'> {
  readonly kind: 'interaction';
  readonly timeoutMs: number;
}

/** A simulated user from functions. */
export function interaction<State = undefined>(options: InteractionOptions<State>): Interaction {
  return { timeoutMs: 300_000, ...(options as InteractionOptions<unknown>), kind: 'interaction' };
}

/** One user in one trajectory. What goes wrong in it is the environment's failure, not the model's. */
export interface UserSession {
  respond(messages: readonly Message[]): Promise<UserTurn>;
  /** Scores, unless the trajectory was broken off, and ends. Throws a RewardError if `score` does. */
  finish(options: { readonly score: boolean }): Promise<number | undefined>;
}

const FINISH_MS = 10_000;

export async function openUser(
  user: Interaction,
  given: Omit<InteractionContext, 'state'>,
): Promise<UserSession> {
  const { name, timeoutMs } = user;
  const { clock } = given;
  const limited = <R>(work: (signal: AbortSignal) => Maybe<R>): Promise<R> =>
    withTimeLimit(work, { milliseconds: timeoutMs, clock, signal: given.signal }).catch((cause: unknown) => {
      given.signal.throwIfAborted();
      const why = messageOf(cause);
      throw new ToolError(`the simulated user '${name}' failed: ${why}`, { cause });
    });
  const state = await limited((signal) => user.start?.({ ...given, signal }));
  return {
    respond: (messages) => limited((signal) => user.respond(messages, { ...given, state, signal })),
    finish: async ({ score }) => {
      const atEnd = <R>(work: (context: InteractionContext) => Maybe<R>): Promise<R> =>
        withTimeLimit((signal) => work({ ...given, state, signal }), { milliseconds: FINISH_MS, clock });
      try {
        return score && user.score ? await atEnd((context) => user.score!(context)) : undefined;
      } catch (cause) {
        throw new RewardError(`score() of the simulated user '${name}' failed: ${messageOf(cause)}`, {
          cause,
        });
      } finally {
        await atEnd((context) => user.finish?.(context)).catch(() => {}); // the dialogue is over
      }
    },
  };
}

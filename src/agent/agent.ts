import type { Chat, ChatStart, ReplyHandle } from '../chat/chat.ts';
import { ConfigError } from '../errors.ts';
import type { Clock } from '../lib/clock.ts';
import type { ImageBlobs } from '../services/image-blobs.ts';
import type { Span, Task, Trajectory } from '../types.ts';
import type { Endpoint, EndpointOptions } from './endpoint.ts';
import type { Limits } from './limits.ts';
import { checkToolNames, type Tool } from './tool.ts';

/** What an agent samples from: the policy, behind exact tokens. */
export interface Model {
  /** A conversation. A second one (a sub-agent, a compressed context) becomes another segment, same reward. */
  chat(options?: ChatOptions): Chat;
}

/** How a chat begins; its tools are those that `runTools` runs. */
export interface ChatOptions extends ChatStart {
  readonly tools?: readonly Tool[];
}

/** What an agent is given for one attempt: its task, the model, and where it stands. */
export interface AgentContext<T = Task> {
  readonly task: T;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly model: Model;
  /** The model behind a URL, for clients and programs that know nothing else; closed when the trajectory ends. */
  endpoint(options?: EndpointOptions): Promise<Endpoint>;
  /** The agent's tools; pass them to `model.chat`. */
  readonly tools: readonly Tool[];
  /** What the trajectory may use; it ends when a limit is reached. */
  readonly limits: Limits;
  /** The run's clock. */
  readonly clock: Clock;
  /** Aborts when the trajectory is out of time or cancelled. */
  readonly signal: AbortSignal;
  /** Passed to rewards and the log as `trajectory.extra`. */
  readonly extra: Record<string, unknown>;
  /** Stores an image with the run and returns a reference, which messages and tool results can show. */
  readonly image: ImageBlobs['put'];
  /** Sets the trajectory's reward; then no reward function is called. The last value counts. */
  reward(value: number): void;
  /** Sets the step reward of a reply, of whichever chat; `replyOf` of an adapter gives the handle. */
  reward(reply: ReplyHandle, value: number): void;
  /**
   * Sets the reward of a sub-agent: its segments are trained on this, compared with the same sub-agent of the group's other
   * attempts. The rest of the trajectory keeps its own reward.
   */
  reward(agent: string, value: number): void;
  /** Takes a reply out of training; it stays in the context. */
  exclude(reply: ReplyHandle): void;
  /** Runs `work` and records how long it took as a span of the trajectory. */
  timed<R>(span: Pick<Span, 'kind' | 'name' | 'turn'>, work: () => Promise<R>): Promise<R>;
  /** The trajectory as it would be if it ended now: for stop conditions that compute a reward. */
  trajectory(): Trajectory<T>;
}

/** What happens in one trajectory: ordinary control flow around `chat.sample()`. */
export interface Agent<T = Task> {
  readonly kind: 'agent';
  readonly name: string;
  /** What the agent can offer the model: for checks before the run and for `rollcall chat`. */
  readonly tools: readonly Tool[];
  /** Attempts in progress at once, if it is fewer than the run's `concurrency`: an agent may be a process. */
  readonly atOnce?: number;
  run(context: AgentContext<T>): Promise<void>;
  /** Throws a ConfigError for a task that it cannot run: asked before the run starts. */
  check?(task: T): void;
  /** Loads what it needs beside this package; rejects where that is not installed. Asked before the run starts. */
  prepare?(): Promise<void>;
}

/** Options of an agent beside its function. */
export interface AgentOptions {
  readonly name?: string;
  readonly tools?: readonly Tool[];
  /** Attempts in progress at once; the rest wait, and their time does not run. */
  readonly atOnce?: number;
}

/**
 * An agent from an async function. The trajectory ends when a limit is reached, so a loop needs no counter:
 * `sample` does not return once there is no room for another reply.
 */
export function agent<T = Task>(
  run: (context: AgentContext<T>) => Promise<void> | void,
  { name = 'agent', tools = [], atOnce }: AgentOptions = {},
): Agent<T> {
  checkToolNames(tools);
  if (atOnce !== undefined && !(Number.isInteger(atOnce) && atOnce > 0)) {
    throw new ConfigError(`atOnce of agent '${name}' is ${atOnce}; use a whole number of 1 or more`);
  }
  return {
    kind: 'agent',
    name,
    tools,
    ...(atOnce === undefined ? {} : { atOnce }),
    run: async (context) => run(context),
  };
}

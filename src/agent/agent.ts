import type { Chat, ChatOptions } from '../chat/chat.ts';
import type { Task } from '../types.ts';

/** What an agent samples from: the policy, behind exact tokens. */
export interface Model {
  /** A conversation. A second one (a sub-agent, a compressed context) becomes another segment, same reward. */
  chat(options?: ChatOptions): Chat;
}

export interface AgentContext<T = Task> {
  readonly task: T;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly model: Model;
  /** Aborts when the trajectory is out of time or cancelled. */
  readonly signal: AbortSignal;
  /** Handed to rewards and the log as `trajectory.extra`. */
  readonly extra: Record<string, unknown>;
}

/** What happens in one trajectory: ordinary control flow around `chat.sample()`. */
export interface Agent<T = Task> {
  readonly kind: 'agent';
  readonly name: string;
  run(context: AgentContext<T>): Promise<void>;
}

/**
 * An agent from an async function. Limits end the trajectory by themselves, so a loop needs no counter:
 * `sample` does not return once there is no room for another reply.
 */
export function agent<T = Task>(
  run: (context: AgentContext<T>) => Promise<void> | void,
  { name = 'agent' }: { name?: string } = {},
): Agent<T> {
  return { kind: 'agent', name, run: async (context) => run(context) };
}

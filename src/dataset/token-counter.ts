import type { ToolSchema } from '../types.ts';
import type { TaskMessage } from './task-row.ts';

/** Tokens of a prompt as it is rendered: template, tool schemas and the opening of the reply included. */
export type CountTokens = (
  messages: readonly TaskMessage[],
  tools: readonly ToolSchema[],
) => number | Promise<number>;

/** A counter that a worker thread can make for itself: `module` exports `name`, which makes a CountTokens. */
export interface CounterModule {
  readonly module: string;
  readonly name: string;
  /** Given to the maker; must survive structured cloning. */
  readonly argument?: unknown;
}

export interface Prompt {
  readonly messages: readonly TaskMessage[];
  readonly tools: readonly ToolSchema[];
}

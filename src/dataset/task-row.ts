import type { Task, ToolCall } from '../types.ts';

/** An image as a row gives it: its bytes, or the path of its file. */
export type ImageSource = { readonly bytes: Uint8Array } | { readonly path: string };

export type TaskPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly source: ImageSource };

/** A message of a prompt, before its images have become blobs. */
export type TaskMessage =
  | { readonly role: 'system' | 'user'; readonly content: string | readonly TaskPart[] }
  | { readonly role: 'assistant'; readonly content: string; readonly toolCalls?: readonly ToolCall[] }
  | {
      readonly role: 'tool';
      readonly content: string | readonly TaskPart[];
      readonly toolCallId: string;
      readonly name: string;
    };

type Fields = Readonly<Record<string, unknown>>;

/** A task read from a row of a dataset: checked, with one spelling for each thing. */
export interface TaskRow extends Task {
  readonly prompt: readonly TaskMessage[];
  /** Chooses the reward, and groups the validation metrics. */
  readonly dataSource?: string;
  /** A ready reward by name, before that of the data source. */
  readonly reward?: string;
  readonly ability?: string;
  /** What the reward compares an answer with. */
  readonly groundTruth?: unknown;
  /** Which agent runs this task. */
  readonly agentName?: string;
  /** Names of the tools on offer. Absent: all. */
  readonly tools?: readonly string[];
  /** Per tool: create_kwargs, execute_kwargs, calc_reward_kwargs, release_kwargs. */
  readonly toolsKwargs: Readonly<Record<string, Fields>>;
  readonly interactionKwargs?: Fields;
  /** From the column that the order reads; absent where it reads none. */
  readonly difficulty?: number;
  readonly extraInfo: Fields;
}

/**
 * Where chats and trajectories meet. A chat knows messages and tokens; a trajectory knows the model, the tools and the
 * limits. Whatever ends the trajectory is thrown from these calls; a reply or a result that there is at that moment is
 * returned, and the chat records it before it stops.
 */
import type { GenerateResult, SamplingParams } from '../inference/server.ts';
import type { ImageRef, ToolCall, ToolRun, Untrained } from '../types.ts';
import type { ReplyPart } from './reply-parts.ts';

export interface ReplySampler {
  /** The model's reply to a prompt: a new turn of the trajectory. */
  sample(prompt: Prompt, options: SamplerOptions): Promise<SampledReply>;
  /** Runs the calls of a turn's reply, all at once: one run for each, in their order. */
  run(turn: number, calls: readonly ToolCall[]): Promise<readonly ToolRun[]>;
  /** Throws if a limit leaves no room to do what the reply of a turn asks. */
  checkRoom(turn: number): void;
}

export interface Prompt {
  readonly ids: Int32Array;
  readonly images: readonly ImageRef[];
  /** Where their placeholders stand in `ids`. */
  readonly imagePlaces: readonly number[];
  /** Number of the reply in its chat, from 1. */
  readonly reply: number;
  /** The prompt's length with its images expanded. */
  readonly contextTokens: number;
  /** How many of its tokens are new and were not sampled; a first prompt counts as none. */
  readonly observationTokens: number;
}

/** What one reply is sampled with, where it differs from the chat. */
export interface SampleOptions extends Partial<Omit<SamplingParams, 'seed' | 'stopIds'>> {
  /** False: sampled, but not trained. A reply whose temperature, truncation or penalty differs from the run's is never trained. */
  readonly trained?: boolean;
  /** Gives the reply up. What was sampled so far is recorded, and not trained. */
  readonly signal?: AbortSignal | undefined;
  /** Called with pieces of the reply as they are sampled; the last one comes when the reply is recorded. */
  readonly onDelta?: ((part: ReplyPart) => void) | undefined;
}

export interface SamplerOptions extends Omit<SampleOptions, 'onDelta'> {
  /** Called with the number of the turn and tokens, as they are sampled. */
  onTokens?(turn: number, ids: Int32Array, logprobs: Float32Array): void;
}

export interface SampledReply extends GenerateResult {
  /** Number of the turn in its trajectory, from 1. */
  readonly turn: number;
  /** Why it is not trained; undefined if it is. */
  readonly untrained: Untrained | undefined;
}

/**
 * A dialect is the form in which a client asks for replies: Chat Completions, Responses, Messages. It reads a body into our
 * words and writes a reply back; it knows neither trajectories nor tokens.
 */
import type { ImageRef, Message, ToolSchema } from '../../types.ts';
import type { Fields } from './fields.ts';

/** What a body asks for, in our words. */
export interface Asked {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSchema[];
  /** Ids of the calls whose tool failed. */
  readonly failedCalls: ReadonlySet<string>;
  /** Sampling options that make another distribution than the run's, where the body has them. */
  readonly shape: Shape;
  readonly maxTokens?: number | undefined;
  readonly stopStrings?: readonly string[] | undefined;
  /** How many replies. */
  readonly count: number;
  readonly stream: boolean;
  readonly logprobs: boolean;
  /** The name that the body gives the model, for the answer. */
  readonly model: string;
  /** Fields that have no effect here. */
  readonly ignored: readonly string[];
}

export interface Shape {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
}

/** A reply as a client gets it. */
export interface GivenReply {
  /** The dialect's own id of the response. */
  readonly id: string;
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly GivenCall[];
  readonly finish: 'stop' | 'length' | 'calls';
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** The text and log-prob of each token, if they were asked for. */
  readonly tokens?: readonly { readonly text: string; readonly logprob: number }[] | undefined;
}

export interface GivenCall {
  readonly id: string;
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/** What reading a body needs from outside. */
export interface ReadContext {
  image(bytes: Uint8Array): Promise<ImageRef>;
}

export interface Dialect {
  /** First letters of response ids. */
  readonly idPrefix: string;
  read(body: Fields, context: ReadContext): Promise<Asked>;
  /** The body of a whole answer; one reply unless more were asked for. */
  write(replies: readonly GivenReply[], asked: Asked): object;
  /** The body of an error. */
  error(status: number, code: string, message: string): object;
}

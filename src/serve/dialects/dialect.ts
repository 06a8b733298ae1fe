/**
 * A dialect is the form in which a client asks for replies: Chat Completions, Responses, Messages. It reads a body into our
 * words and writes a reply back, whole or piece by piece; it knows neither trajectories nor tokens.
 */
import type { ReplyPart } from '../../chat/reply-parts.ts';
import type { ImageRef, JsonSchema, Message, ToolSchema } from '../../types.ts';
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
  /** A schema that the reply must follow. */
  readonly schema?: WantedSchema | undefined;
  /** Of several calls in a reply, only the first is wanted. */
  readonly onlyOneCall: boolean;
  /** The reply must call a tool, or this one. */
  readonly neededCall: boolean | string;
  /** How many replies. */
  readonly count: number;
  readonly stream: boolean;
  /** Whether the last event of a stream counts the tokens. */
  readonly streamUsage?: boolean | undefined;
  readonly logprobs: boolean;
  /** The name that the body gives the model, for the answer. */
  readonly model: string;
  /** How many of the first messages are not part of what a later request continues by the id of its response. */
  readonly instructions?: number | undefined;
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

export interface WantedSchema {
  /** The field that asks for it, which is ignored where the engine cannot obey it. */
  readonly field: string;
  readonly schema: JsonSchema;
}

/** A reply as a client gets it. */
export interface GivenReply {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly GivenCall[];
  readonly finish: 'stop' | 'length' | 'calls';
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Tokens of the prompt that the engine had in its cache, where it says. */
  readonly cachedTokens?: number | undefined;
  /** Ids of the reply and of the prompt, if they were asked for. */
  readonly ids?: readonly number[];
  readonly promptIds?: readonly number[];
  /** The text and log-prob of each token, if they were asked for. */
  readonly tokens?: readonly GivenToken[] | undefined;
}

export interface GivenCall {
  readonly id: string;
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

export interface GivenToken {
  readonly text: string;
  readonly logprob: number;
}

/** What reading a body needs from outside. */
export interface ReadContext {
  image(bytes: Uint8Array): Promise<ImageRef>;
  /** The dialogue of an earlier response, its reply included. */
  previous(id: string): readonly Message[];
}

/** A piece of a reply; `tokens` if log-probs were asked for, `ids` if these were. */
export interface GivenPart extends Pick<ReplyPart, 'content' | 'reasoning' | 'toolCalls'> {
  readonly tokens?: readonly GivenToken[] | undefined;
  readonly ids?: readonly number[];
}

/** Writes the events of one streamed answer, as text. */
export interface EventWriter {
  begin(): string;
  /** `reply` is its number, where more than one was asked for. */
  part(reply: number, part: GivenPart): string;
  end(replies: readonly GivenReply[]): string;
}

export interface Dialect {
  /** First letters of response ids. */
  readonly idPrefix: string;
  read(body: Fields, context: ReadContext): Promise<Asked>;
  /** The body of a whole answer; one reply unless more were asked for. */
  write(id: string, replies: readonly GivenReply[], asked: Asked): object;
  /** The same answer as events. */
  events(id: string, asked: Asked): EventWriter;
  /** The body of an error. */
  error(status: number, code: string, message: string): object;
}

/** A server-sent event; Chat Completions does not name its events. */
export const event = (data: object, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;

export const secondsNow = () => Math.floor(Date.now() / 1000);

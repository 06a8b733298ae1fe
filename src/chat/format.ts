import type { Message, Problem, ToolCall, ToolSchema } from '../types.ts';
import type { AddedToken } from './added-tokens.ts';
import type { Extension, Rendered } from './transcript.ts';

export type Tools = readonly ToolSchema[];

/** A reply as text. The tokens stay what they are: this is a view for tools, rewards and people. */
export interface Reply {
  /** What the user would read: without reasoning, calls and special tokens. */
  readonly content: string;
  /** Inside `<think>` or the family's own marks; '' if there was none. */
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Calls that could not be read, each described. A good call beside a bad one is still in `toolCalls`. */
  readonly problems: readonly Problem[];
  /** The whole reply decoded, special tokens removed; calls and reasoning included. */
  readonly text: string;
}

/** A reply on its way: what `push` and `end` return is new since the last call. Put together, it is the reply. */
export interface ReplyDelta {
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  readonly problems: readonly Problem[];
  /** The same calls, piece by piece: put together, the pieces of a call are its JSON. */
  readonly callParts: readonly CallPart[];
}

/** A piece of a call; the arguments of all its pieces, put together, are its JSON. */
export interface CallPart {
  /** Position of the call in its reply. */
  readonly index: number;
  readonly isFirst: boolean;
  /** Whether the call is complete. */
  readonly isLast: boolean;
  /** The call turned out to be unreadable: it is a problem of the reply, and its arguments are never completed. */
  readonly isBroken?: boolean;
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface ReplyStream {
  push(ids: Int32Array): ReplyDelta;
  end(): ReplyDelta;
}

export interface PromptOptions {
  /**
   * How many of the leading messages are the dataset's own words. With `trustPromptSpecialTokens` the text of
   * special tokens in these becomes those tokens. All messages if not given.
   */
  readonly promptMessages?: number;
}

export interface ExtendRequest {
  /** All ids of the segment so far, the last reply included. */
  readonly ids: Int32Array;
  /** How many of the last ids the reply is; 0 after an empty reply. */
  readonly replyLength: number;
  /** The dialogue up to and including the reply. */
  readonly messages: readonly Message[];
  /** What answers the reply: tool, user or system messages. */
  readonly newMessages: readonly Message[];
  readonly tools: Tools;
}

/** Messages ⇄ tokens for one model, exactly. Everything is synchronous and a function of its arguments. */
export interface ChatFormat {
  readonly family: string;
  /** Name of the tool-call format, such as `hermes`; `unknown` where the template shows none. */
  readonly toolFormat: string;
  /** With an unknown format: the known ones that share most marks with the template. */
  readonly nearestToolFormats?: readonly string[];
  /** Ids that end a reply; pass all of them to the engine. */
  readonly stopIds: readonly number[];
  readonly vocabularySize: number;
  /** Tokens that the tokenizer's files add to its vocabulary, such as `<tool_call>`; white space is not among them. */
  readonly addedTokens?: readonly AddedToken[];
  /**
   * The dialogue as a prompt, ending in the generation prompt. It may end in user, tool or assistant
   * messages; none of it is sampled. The same arguments give the same ids, so a task's first prompt can be
   * kept for all its attempts. Throws ConfigError if the template refuses the messages.
   */
  renderPrompt(messages: readonly Message[], tools: Tools, options?: PromptOptions): Rendered;
  /**
   * The ids that follow the reply: what closes it if it did not close itself, `newMessages`, and the next
   * generation prompt. `undefined` where appending cannot be proven right: render the whole dialogue with
   * `renderPrompt` and begin a new segment.
   */
  extend(request: ExtendRequest): Extension | undefined;
  /** Never throws: what cannot be read is in `problems`. Call ids are `call_<first + n>`. */
  parseReply(ids: Int32Array, tools: Tools, firstCall?: number): Reply;
  /** The same, while the ids arrive. */
  streamReply(tools: Tools, firstCall?: number): ReplyStream;
  /** The text of all tokens, including special ones. */
  decode(ids: Int32Array): string;
  /** Plain text; that of special tokens stays text. For counting and shortening what goes into a message. */
  encodeText(text: string): Int32Array;
}

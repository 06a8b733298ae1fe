import type { SampleOptions } from '../chat/reply-sampler.ts';
import type { Message, ToolSchema } from '../types.ts';
import type { Tool } from './tool.ts';

/** What a framework or an outside client asks for: a reply to a whole list of messages. */
export interface ServeRequest {
  readonly messages: readonly Message[];
  readonly toolSchemas: readonly ToolSchema[];
  /** Those of `toolSchemas` that the trajectory itself runs, when the framework asks for it. */
  readonly tools?: readonly Tool[];
  /** Its `signal` gives the reply up: what was sampled so far is recorded, and not trained. */
  readonly sampling: SampleOptions;
  /** Ids of the calls whose tool failed. */
  readonly failedCalls: ReadonlySet<string>;
  /** A reply with nothing but calls that cannot be read is answered here; the framework gets the reply that follows. */
  readonly answersUnreadable?: boolean;
  /** Calls of tools that were not offered are answered here; the framework does not get them. */
  readonly answersUnknown?: boolean;
  /** Of several calls in a reply, the first is passed on; the others are answered here. */
  readonly onlyOneCall?: boolean;
  /** The framework wants a call: of any tool, or of this one. A reply without it is answered here, twice at most. */
  readonly neededCall?: boolean | string | undefined;
  /** Calls are told to `onDelta` when they are complete; unreadable ones never. */
  readonly tellsWholeCalls?: boolean;
  /** Names the sub-agent that asks; each has chats of its own. */
  readonly agent?: string | undefined;
  /** A reply that is asked for again before it was used is trained all the same. */
  readonly trainsRepeated?: boolean;
}

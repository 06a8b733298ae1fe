/**
 * The nouns. A dataset yields tasks; an attempt at a task is a trajectory; all attempts at one task are a
 * group; a batch is what a trainer takes; a step is one update and makes a new version of the weights.
 */

/** One row of a dataset, as the user wrote it. */
export type Task = Readonly<Record<string, unknown>>;

/** A JSON Schema as plain data. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A tool as the model sees it: OpenAI's function form. Nested schema keys are kept as they are. */
export interface ToolSchema {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: JsonSchema;
    readonly strict?: boolean;
  };
}

/** A tool as a chat sees it: its name and the schema that the model reads. */
export interface OfferedTool {
  readonly name: string;
  readonly schema: ToolSchema;
}

/** An image by the hash of its bytes; the bytes are in the run directory's `blobs/`. */
export interface ImageRef {
  readonly blob: string;
  readonly mime: string;
  readonly width: number;
  readonly height: number;
  /** How many positions the image takes in the context once the engine has expanded its placeholder. */
  readonly tokens: number;
}

/** A piece of a message: text or an image. */
export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly image: ImageRef };

/** The content of a message: plain text, or text with images. */
export type Content = string | readonly ContentPart[];

/** A tool call that could be read. One that could not be read is a `Problem`. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** A message of a dialogue, by role. */
export type Message =
  | { readonly role: 'system'; readonly content: Content }
  | { readonly role: 'user'; readonly content: Content }
  | {
      readonly role: 'assistant';
      readonly content: string;
      readonly reasoning?: string;
      readonly toolCalls?: readonly ToolCall[];
    }
  | { readonly role: 'tool'; readonly content: Content; readonly toolCallId: string; readonly name: string };

/** A model's mistake: reported to the model, recorded and counted; never an exception. */
export interface Problem {
  readonly kind:
    | 'malformed-call'
    | 'unknown-tool'
    | 'bad-arguments'
    | 'tool-threw'
    | 'tool-timeout'
    | 'too-many-calls';
  readonly message: string;
  /** The text that could not be read, or the tool's name. */
  readonly source: string;
}

/**
 * A run of tokens trained as one sequence. All arrays have the length of `ids`.
 *
 *   ids      | prompt | reply 1 | tool result | reply 2 |
 *   sampled  | 0 … 0  | 1 … 1   | 0  …  0     | 1 … 1   |
 *   trained  | 0 … 0  | 1 … 1   | 0  …  0     | 1 … 1   |  a subset of sampled
 *   logprobs | 0 … 0  | by the engine, when it sampled, after temperature | 0 where not sampled
 *   versions | -1 …   | version of the weights that sampled the token     | -1 where not sampled
 *   turns    | 0 … 0  | 1 … 1   | 1  …  1     | 2 … 2   |  0 is the prompt; a turn is a reply and what answers it
 */
export interface Segment {
  readonly ids: Int32Array;
  readonly sampled: Uint8Array;
  readonly trained: Uint8Array;
  readonly logprobs: Float32Array;
  readonly versions: Int32Array;
  readonly turns: Int32Array;
  readonly images: readonly { readonly at: number; readonly image: ImageRef }[];
  /** Name of the agent that spoke here, where a trajectory has several. */
  readonly agent?: string;
}

/**
 * Why a reply is not trained: it was sampled with options other than the run's, nobody received it or it was asked for
 * again, its agent is not one of those that are trained, or the agent excluded it.
 */
export type Untrained = 'sampling' | 'abandoned' | 'agent' | 'excluded';

/** How a trajectory ended, and with it whether it is retried, scored and trained (docs/architecture.md). */
export type End =
  | { readonly kind: 'completed' }
  | { readonly kind: 'truncated'; readonly why: 'turns' | 'tokens' | 'context' | 'time' }
  | {
      readonly kind: 'failed';
      readonly boundary: 'infrastructure' | 'environment' | 'agent' | 'reward';
      readonly message: string;
    }
  | { readonly kind: 'cancelled'; readonly why: string };

/** One tool call as it was run: what the model asked, what it got, how long it took. */
export interface ToolRun {
  readonly call: ToolCall;
  readonly result: Content;
  readonly problem?: Problem;
  /** Step reward, if the tool gave one. */
  readonly reward?: number;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly milliseconds: number;
  readonly cached?: boolean;
}

/** One reply and what answered it. `start`/`end` are the reply's token offsets in its segment. */
export interface Turn {
  readonly segment: number;
  /** Position of the reply in the trajectory's messages; absent for an empty reply that nothing follows. */
  readonly message?: number;
  readonly start: number;
  readonly end: number;
  readonly finish: 'stop' | 'length' | 'abort';
  readonly toolCalls: readonly ToolCall[];
  readonly toolRuns: readonly ToolRun[];
  readonly problems: readonly Problem[];
  /** Step reward of the turn itself (an interaction's score, an agent's own credit). */
  readonly reward?: number;
  /** Why its reply is not trained; absent if it is. */
  readonly untrained?: Untrained;
}

/** A conversation of a trajectory: its messages from `start` up to `end`. A sub-agent holds another one. */
export interface ChatPart {
  /** Its place in the order in which the agent opened its chats, from 0. */
  readonly number: number;
  readonly start: number;
  readonly end: number;
  /** Names of the tools that the model was offered. */
  readonly tools: readonly string[];
  /** Name of the agent that speaks here, where a trajectory has several. */
  readonly agent?: string;
}

/** A stretch of a trajectory's time, in milliseconds since the run's clock began. */
export interface Span {
  readonly kind: 'wait' | 'generate' | 'tool' | 'interaction' | 'reward';
  readonly name: string;
  readonly turn: number;
  readonly start: number;
  readonly end: number;
  readonly attributes?: Readonly<Record<string, string | number | boolean>>;
}

/** How often a trajectory's endpoint was used, and what it did not obey. */
export interface EndpointUse {
  readonly requests: number;
  /** Requests whose sampling options were replaced by the run's. */
  readonly forcedSampling: number;
  /** Fields of requests that had no effect, by name. */
  readonly ignoredFields: Readonly<Record<string, number>>;
}

/** One attempt at a task. */
export interface Trajectory<T = Task> {
  readonly id: string;
  readonly step: number;
  /** Position of the task in its dataset: the task's name in seeds, logs and links. */
  readonly taskIndex: number;
  readonly task: T;
  readonly attempt: number;
  /** The validation set that the task belongs to; absent in training. */
  readonly evaluation?: string;
  readonly segments: readonly Segment[];
  /** Chat by chat, in the order in which they were opened. */
  readonly messages: readonly Message[];
  readonly chats: readonly ChatPart[];
  /** In the order in which they began, whatever their chat. */
  readonly turns: readonly Turn[];
  /** Text of the last reply, special tokens removed. */
  readonly text: string;
  readonly end: End;
  readonly spans: readonly Span[];
  /** What an agent passes on to rewards and the log. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Set by the agent itself (`context.reward`), instead of by reward functions. */
  readonly ownReward?: number;
  /** Rewards of sub-agents by name, set by the agent: their segments are trained on these, instead of on the trajectory's. */
  readonly agentRewards?: Readonly<Record<string, number>>;
  /** How the agent's clients used its endpoint; absent if it had none. */
  readonly endpoint?: EndpointUse;
}

/** A trajectory with its rewards by name; `reward` is their weighted sum, undefined if it was not scored. */
export interface Scored<T = Task> {
  readonly trajectory: Trajectory<T>;
  readonly rewards: Readonly<Record<string, number>>;
  readonly reward: number | undefined;
}

/** All attempts at one task, in order of attempt. */
export interface Group<T = Task> {
  readonly taskIndex: number;
  readonly task: T;
  readonly attempts: readonly Scored<T>[];
}

/** Named numbers of one step; names follow verl's where verl has one (docs/metrics.md). */
export type Metrics = Record<string, number>;

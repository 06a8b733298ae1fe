/**
 * The policy behind a URL, for one trajectory: the port between a trajectory and the door that outside clients knock at.
 * A trajectory opens it when its agent asks (`context.endpoint()`), and closes it when it ends; `serve/endpoint` implements it.
 */
import type { ChatReply, ReplyHandle } from '../chat/chat.ts';
import type { Clock } from '../lib/clock.ts';
import type { EndpointUse, ImageRef } from '../types.ts';
import type { Sampling } from './sampling.ts';
import type { ServeRequest } from './serve-request.ts';

/** The policy behind a URL, for one trajectory: what a client that knows only a base URL and a key is given. */
export interface Endpoint {
  /** Base URL for OpenAI's clients, up to and including `/v1`: Chat Completions and Responses. */
  readonly openai: string;
  /** Base URL for Anthropic's clients, which add `/v1/messages`. */
  readonly anthropic: string;
  /** Opens this trajectory only, and only until it ends. */
  readonly apiKey: string;
  /** Answers requests to these URLs in this process, without a connection; clients take it as their `fetch`. */
  readonly fetch: typeof globalThis.fetch;
  /** Where rewards and the end are posted: `/reward`, `/agents/NAME/reward`, `/replies/ID/reward|exclude`, `/complete`. */
  readonly url: string;
  /** Resolves when a client posts to `/complete`; never, if none does. */
  readonly completed: Promise<Completion>;
}

/** What a client has said with `/complete`. */
export interface Completion {
  readonly reward?: number;
  /** Why the agent failed, if it did. */
  readonly error?: string;
}

/** Which part of an agent uses the endpoint. */
export interface EndpointOptions {
  /** Names the sub-agent: its replies become segments of this name. */
  readonly agent?: string;
}

/** What an endpoint does with requests that training cannot simply obey. */
export interface EndpointRules {
  /**
   * A temperature, top-p or penalty that differs from the run's. `force`: the run's is used, and the request is counted.
   * `exclude`: obeyed, and the reply is not trained. `refuse`: 400.
   */
  readonly sampling: 'force' | 'exclude' | 'refuse';
  /** Fields that have no effect here: ignored and counted, or refused with 400. */
  readonly unknownFields: 'ignore' | 'refuse';
  /** Replies that the client gave up, or asked for again before it used them. */
  readonly abandoned: 'exclude' | 'train';
  /**
   * Calls in a stream. `whole`: when they are complete; unreadable ones are answered here, as in a reply that is not streamed.
   * `streamed`: as they are sampled; one that breaks off is the client's to answer.
   */
  readonly calls: 'whole' | 'streamed';
}

/** What is safe to train on. */
export const ENDPOINT_RULES: EndpointRules = {
  sampling: 'force',
  unknownFields: 'ignore',
  abandoned: 'exclude',
  calls: 'whole',
};

/** What a trajectory lends to its endpoint. */
export interface EndpointSetup {
  /** The trajectory's id. */
  readonly id: string;
  readonly clock: Clock;
  /** How the run samples. */
  readonly sampling: Sampling;
  /** The next reply; throws what unwinds the agent once the trajectory has ended. */
  reply(request: ServeRequest): Promise<ChatReply>;
  /** The number of tokens of a prompt. */
  countTokens(request: Pick<ServeRequest, 'messages' | 'toolSchemas'>): number;
  /** The text and log-prob of each token of a reply. */
  tokensOf(reply: Pick<ChatReply, 'ids' | 'logprobs'>): { readonly text: string; readonly logprob: number }[];
  /** Stores an image that a message shows. */
  image(bytes: Uint8Array): Promise<ImageRef>;
  /** The trajectory's own reward, or that of one of its sub-agents. */
  reward(value: number, agent?: string): void;
  rewardReply(reply: ReplyHandle, value: number): void;
  excludeReply(reply: ReplyHandle): void;
  /** How the trajectory ended, in words; undefined while it lasts. */
  ended(): string | undefined;
}

/** An endpoint as its trajectory holds it. */
export interface OpenEndpoint {
  of(options: EndpointOptions): Endpoint;
  /** How it was used so far. */
  use(): EndpointUse;
  /** The trajectory has ended: from now on, requests get 409. */
  close(): void;
}

/** The door in front of all trajectories of a run. */
export interface Door {
  open(setup: EndpointSetup): Promise<OpenEndpoint>;
}

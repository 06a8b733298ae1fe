import type { RequestPlace } from '../inference/server.ts';

/** A request that waits to be sent, as a policy sees it. */
export interface WaitingRequest {
  readonly id: string;
  readonly trajectory: string;
  /** Place in the run; absent for requests from outside a run. */
  readonly place: RequestPlace | undefined;
  /** Tokens of its context so far. */
  readonly contextTokens: number;
  /** Tokens that its trajectory will still sample, from its siblings and from history. */
  readonly predictedTokens: number;
  /** Nothing is known about its task yet: no attempt at it has ended. */
  readonly unknown: boolean;
  /** When it came, and when the first request of its trajectory did; milliseconds of the gateway's clock. */
  readonly since: number;
  readonly begun: number;
  /** The server that answered its trajectory last. */
  readonly home: string | undefined;
  /** Its context is counted among those that its home keeps. */
  readonly resident: boolean;
  /** Servers that failed this request. */
  readonly failedOn: ReadonlySet<string>;
}

/** A server that answers, as a policy sees it. */
export interface ServerView {
  readonly name: string;
  readonly inFlight: number;
  /** Most requests it is given at once. */
  readonly ceiling: number;
  /** Tokens that its K/V memory holds; Infinity where it does not say. */
  readonly kvTokens: number;
  /** Contexts of the trajectories it keeps: those in generation, and those whose tools run. */
  readonly keptTokens: number;
}

/** What a scheduling policy sees: waiting requests and servers. */
export interface SchedulingView {
  readonly now: number;
  /** Waiting requests, in order of arrival. */
  readonly waiting: readonly WaitingRequest[];
  readonly servers: readonly ServerView[];
}

/**
 * What happens next: a request is sent to a server, or its context is no longer counted on its home, so that others
 * have room. Undefined: nothing, until something ends or comes.
 */
export type Decision =
  | { readonly kind: 'send'; readonly request: WaitingRequest; readonly server: ServerView }
  | { readonly kind: 'pause'; readonly request: WaitingRequest };

/** A scheduling policy. It is called again after every decision and must be pure: the same view gives the same answer. */
export type Policy = (view: SchedulingView) => Decision | undefined;

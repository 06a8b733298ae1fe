/**
 * What a trajectory may use. Reaching a limit truncates the trajectory; it never fails it. An observation that
 * would leave no room for a reply is dropped, so that a trajectory ends on sampled tokens.
 */
export interface Limits {
  /** Replies per trajectory. Tool calls in the last one are not run. */
  readonly turns: number;
  /** Rounds of tool results or user messages per chat, after the first prompt. */
  readonly answers: number;
  readonly tokensPerReply: number;
  /** Tokens of replies, tool results and user messages over all segments; the first prompt is not counted. */
  readonly tokensPerTrajectory: number;
  /** Tokens of prompt, replies and answers in one segment; an image counts as its expanded tokens. */
  readonly contextTokens: number;
  readonly secondsPerTrajectory: number;
  /** A reply that takes longer is cut off. */
  readonly secondsPerReply: number;
  readonly toolTimeoutMs: number;
  /** Tool calls run per reply; the model gets an error for each further call. */
  readonly callsPerTurn: number;
  /** Longer tool results are shortened; see a tool's `keep`. */
  readonly tokensPerToolResult: number;
}

export const DEFAULT_LIMITS: Limits = {
  turns: 8, // agents that need more are rare, and a loop that never ends is common before training
  answers: Number.POSITIVE_INFINITY, // bounded by turns
  tokensPerReply: 1024,
  tokensPerTrajectory: 4096,
  contextTokens: Number.POSITIVE_INFINITY, // the server's own context is applied by the run
  secondsPerTrajectory: 600,
  secondsPerReply: Number.POSITIVE_INFINITY, // bounded by secondsPerTrajectory
  toolTimeoutMs: 30_000,
  callsPerTurn: 8,
  tokensPerToolResult: 1024,
};

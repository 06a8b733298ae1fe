/** What both clients of `npm run bench gateway` are asked, and answer. */
export interface GatewayJob {
  readonly urls: readonly string[];
  readonly trajectories: number;
  readonly turns: number;
  /** Prompt tokens of the first turn; each reply is appended. */
  readonly promptTokens: number;
  readonly replyTokens: number;
  readonly latencyMs: number;
}

export interface GatewayResult {
  readonly turns: number;
  readonly seconds: number;
  /** User and system time of the client's process. */
  readonly cpuSeconds: number;
  /** Time of a turn beyond what the server took. */
  readonly p50AddedMs: number;
  readonly p99AddedMs: number;
  readonly maxAddedMs: number;
  readonly loopDelayP99Ms: number;
  /** Growth of resident memory, at its highest. */
  readonly peakBytes: number;
  /** Four bytes an id and four a log-prob. */
  readonly tokenBytes: number;
}

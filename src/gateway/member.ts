import type { GenerateResult, InferenceServer, ServerLoad } from '../inference/server.ts';

/** One server of a gateway, and what it has done. */
export interface Member {
  readonly name: string;
  readonly server: InferenceServer;
  inFlight: number;
  /** The most there were since the server last reported. */
  mostInFlight: number;
  /** Most requests it is given at once; Infinity without a ceiling. */
  ceiling: number;
  /** Load that the server last reported. */
  load: ServerLoad | undefined;
  /** When that was, by the gateway's clock. */
  reportedAt: number;
  /** Why it gets no requests; undefined while it does. It is asked again when weights are sent. */
  down: string | undefined;
  /** Takes no new trajectories, and goes when its last request has. */
  leaving: boolean;
  /** Version of the weights it was last sent; undefined before. */
  version: number | undefined;
  /** Settles when the weights on their way are there, or have failed. */
  updating: Promise<void> | undefined;
  requests: number;
  failures: number;
  sampledTokens: number;
  promptTokens: number;
  cachedTokens: number;
}

/** What `status()` tells of a server. */
export type MemberStatus = Omit<Member, 'server' | 'updating'>;

export function createMember(server: InferenceServer, place: number): Member {
  return {
    name: 'url' in server && typeof server.url === 'string' ? server.url : `server ${place}`,
    server,
    inFlight: 0,
    mostInFlight: 0,
    ceiling: Number.POSITIVE_INFINITY,
    load: undefined,
    reportedAt: Number.NEGATIVE_INFINITY,
    down: undefined,
    leaving: false,
    version: undefined,
    updating: undefined,
    requests: 0,
    failures: 0,
    sampledTokens: 0,
    promptTokens: 0,
    cachedTokens: 0,
  };
}

export function countReply(member: Member, { ids, promptTokens, cachedTokens = 0 }: GenerateResult): void {
  member.sampledTokens += ids.length;
  member.promptTokens += promptTokens;
  member.cachedTokens += cachedTokens;
}

export function statusOf({ server: _, updating: __, ...status }: Member): MemberStatus {
  return status;
}

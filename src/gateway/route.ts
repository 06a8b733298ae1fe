import { hashSeed } from '../lib/random.ts';
import type { Member } from './member.ts';

export interface RouteRequest {
  readonly trajectory: string;
  /** The server that had the trajectory. */
  readonly home: Member | undefined;
  /** Servers that failed this request, one entry a failure. */
  readonly failed: readonly Member[];
}

export interface RouteRules {
  /**
   * A trajectory leaves its server, and the prefix cached there, when that server has this many more requests in
   * flight than the least busy one. Infinity: never.
   */
  readonly imbalance: number;
  /** `stable` places trajectories by a hash of their id, the same in every run: for exact repetition. */
  readonly placement: 'least-busy' | 'stable';
}

/** Where a request goes: home, unless that is gone or too busy; else to the least busy of those that failed it least. */
export function route(
  members: readonly Member[],
  { trajectory, home, failed }: RouteRequest,
  { imbalance, placement }: RouteRules,
): Member | undefined {
  if (imbalance === Number.POSITIVE_INFINITY && failed.length === 0 && home?.down === undefined && home) {
    return home;
  }
  const up = members.filter(({ down, leaving }) => down === undefined && !leaving);
  const failures = (member: Member) => failed.filter((other) => other === member).length;
  const least = Math.min(...up.map(failures));
  const able = up.filter((member) => failures(member) === least);
  const calmest = able.reduce<Member | undefined>(
    (best, member) => (best === undefined || member.inFlight < best.inFlight ? member : best),
    undefined,
  );
  if (home && home.down === undefined && failures(home) === 0) {
    if (calmest === undefined || home.inFlight - calmest.inFlight < imbalance) return home;
  }
  if (placement === 'least-busy' || calmest === undefined) return calmest;
  return highestHash(able, trajectory);
}

/** Rendezvous hashing: when a server goes, only its own trajectories move. */
function highestHash(members: readonly Member[], trajectory: string): Member {
  return members.reduce((best, member) =>
    hashSeed('route', trajectory, member.name) > hashSeed('route', trajectory, best.name) ? member : best,
  );
}

import type { Decision, Policy, SchedulingView, ServerView, WaitingRequest } from '../scheduling-view.ts';
import { able, type ChooseRules, choose, hasSlot, least } from './choose.ts';

/**
 * K/V memory as a budget of whole trajectories (ThunderAgent, arXiv 2602.13692). An engine forgets the context of a
 * trajectory whose tool runs as soon as others need the room, and computes all of it again when it comes back; with
 * more trajectories than memory, all do that to one another. So a server is only given trajectories whose contexts
 * fit beside one another, tools or not. The rest waits outside, where waiting costs nothing.
 */
export interface Budget {
  /** Share of a server's K/V memory that contexts may fill; the rest is for what they grow by. */
  readonly kvShare: number;
}

/** How much of the servers' cache trajectories may reserve. */
export interface BudgetRules extends Budget {
  /** A request that has waited this long goes before all later ones. */
  readonly patienceMs: number;
}

const BUDGET_RULES: BudgetRules = { kvShare: 0.9, patienceMs: 60_000 };

/** Who goes first is `compare`'s to say; who may go, the budget's. */
export function withinBudget(rules: Partial<BudgetRules>, compare: ChooseRules['compare']): Policy {
  const { patienceMs, ...budget } = { ...BUDGET_RULES, ...rules };
  return (view) => {
    const paused = pauseOne(view, budget);
    if (paused) return paused;
    if (!view.servers.some(hasSlot)) return undefined;
    return choose(view, {
      patienceMs,
      compare,
      place: (request, overdue) => placeWithin(view.servers, request, { ...budget, overdue }),
    });
  };
}

const roomOf = ({ kvTokens, keptTokens }: ServerView, { kvShare }: Budget) => kvShare * kvTokens - keptTokens;

/** An idle server takes anything: nothing waits for ever because it is large, or because a tool hangs. */
const fits = (server: ServerView, { contextTokens }: WaitingRequest, budget: Budget) =>
  server.inFlight === 0 || roomOf(server, budget) >= contextTokens;

/** On a server whose contexts have outgrown it, pauses the waiting trajectory that is cheapest to compute again. */
function pauseOne({ waiting, servers }: SchedulingView, budget: Budget): Decision | undefined {
  const full = servers.filter((server) => server.inFlight > 0 && roomOf(server, budget) < 0);
  if (full.length === 0) return undefined;
  let smallest: WaitingRequest | undefined;
  for (const request of waiting) {
    if (!request.resident || !full.some(({ name }) => name === request.home)) continue;
    if (!smallest || request.contextTokens < smallest.contextTokens) smallest = request;
  }
  return smallest && { kind: 'pause', request: smallest };
}

/**
 * Home, where its context is; else where most is left, or, if some server does not say, where least is kept. It also moves
 * between two requests when that evens the servers out by more than its own size, which is what it costs: its context is
 * computed again.
 */
function placeWithin(
  servers: readonly ServerView[],
  request: WaitingRequest,
  { overdue, ...budget }: Budget & { readonly overdue: boolean },
): ServerView | undefined {
  const candidates = able(servers, request);
  const roomy = candidates.filter((server) => hasSlot(server) && fits(server, request, budget));
  const isKnown = roomy.every(({ kvTokens }) => Number.isFinite(kvTokens));
  const roomiest = least(
    roomy,
    (server) => (isKnown ? -roomOf(server, budget) : server.keptTokens),
    ({ inFlight }) => inFlight,
  );
  const home = request.resident ? candidates.find(({ name }) => name === request.home) : undefined;
  if (!home) return roomiest;
  const isBetter =
    roomiest !== undefined &&
    home.keptTokens - roomiest.keptTokens > 2 * request.contextTokens &&
    home.inFlight > roomiest.inFlight;
  if (isBetter) return roomiest;
  if (hasSlot(home)) return home;
  return overdue ? roomiest : undefined;
}

/**
 * Which server answers which request. A trajectory stays with its server, whose cache holds its prefix; a new one
 * goes where the fewest requests are in flight; a request that failed is sent elsewhere with the same ids. A server
 * that is gone gets nothing until it is back and has the newest weights.
 */
import { ConfigError, EngineError } from '../errors.ts';
import type {
  GenerateRequest,
  GenerateResult,
  InferenceServer,
  ServerInfo,
  WeightUpdate,
} from '../inference/server.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import { Admission } from './admission.ts';
import { CEILING_RULES, type CeilingRules, nextCeiling } from './ceiling.ts';
import { Fleet } from './fleet.ts';
import { countReply, type Member, type MemberStatus, statusOf } from './member.ts';
import { firstCome } from './policies/first-come.ts';
import { type RouteRules, route } from './route.ts';
import type { Policy } from './scheduling-view.ts';
import { ToldTokens } from './told-tokens.ts';

/** How requests are spread over servers, retried and limited. */
export interface GatewayOptions extends Partial<RouteRules> {
  /** Tries of one request, over all servers. */
  readonly tries?: number;
  /** Failed tries of one trajectory, over all its requests; its time is a limit of the run. */
  readonly failuresPerTrajectory?: number;
  /** Wait before the second try; doubles each time. */
  readonly backoffMs?: number;
  readonly longestBackoffMs?: number;
  /** How long requests and new weights wait for a server to come back when none answers; 0 gives up after `tries`. */
  readonly restartSeconds?: number;
  /** A request that takes longer is tried elsewhere. */
  readonly secondsPerRequest?: number;
  /** What happens to requests that run while weights are sent. */
  readonly whileUpdating?: 'abort' | 'wait' | 'keep';
  /** Which waiting request goes next, and where (docs/scheduling.md). Without one every request is sent at once. */
  readonly policy?: Policy;
  /** No server gets more requests than it can take, by the load it reports. */
  readonly ceiling?: Partial<CeilingRules>;
  /** For policies: tokens that a request's trajectory will still sample, if more is known than its siblings tell. */
  readonly predict?: (request: GenerateRequest) => number;
  readonly clock?: Clock;
  /** Called when a server is lost, comes back, or is removed. */
  readonly log?: (line: string) => void;
  /** The run's signal: once it aborts, nothing waits for a server. */
  readonly signal?: AbortSignal | undefined;
}

/** Several servers of one model, as one. */
export function gateway(servers: readonly InferenceServer[], options: GatewayOptions = {}): Gateway {
  if (servers.length === 0) throw new ConfigError('a gateway needs at least one server, and was given none');
  return new Gateway(servers, options);
}

/** A request that has no reply yet. */
export interface OpenRequest {
  readonly trajectory: string;
  readonly turn: number | undefined;
  /** Since it was asked for. */
  readonly waitedMs: number;
  readonly tries: number;
  /** Where it is; undefined while it waits for a server. */
  readonly server: string | undefined;
}

interface Asked extends Pick<OpenRequest, 'trajectory' | 'turn'> {
  readonly since: number;
  tries: number;
  server: string | undefined;
}

interface Failure {
  readonly member: Member;
  readonly error: unknown;
}

/** Far more than run at once. */
const REMEMBERED_TRAJECTORIES = 100_000;
const READY_MS = 5000;
/** How long a request may wait for servers whose queues are full, before that counts as a failed try. */
const BUSY_MS = 600_000;
const LONGEST_BUSY_MS = 2000;

export class Gateway implements InferenceServer {
  readonly #fleet: Fleet;
  readonly #home = new Map<string, Member>();
  readonly #rules: RouteRules;
  readonly #tries: number;
  readonly #failuresPerTrajectory: number;
  /** Failed tries by trajectory, for those that had any. */
  readonly #failures = new Map<string, number>();
  readonly #backoffMs: number;
  readonly #longestBackoffMs: number;
  readonly #requestMs: number;
  readonly #whileUpdating: GatewayOptions['whileUpdating'];
  readonly #clock: Clock;
  readonly #admission: Admission | undefined;
  readonly #ceiling: CeilingRules | undefined;
  readonly #open = new Set<Asked>();
  /** Policies need the servers' memory sizes, so nothing is sent before these are known. */
  #firstReports: Promise<unknown> | undefined;

  constructor(servers: readonly InferenceServer[], options: GatewayOptions) {
    this.#rules = {
      imbalance: options.imbalance ?? Number.POSITIVE_INFINITY,
      placement: options.placement ?? 'least-busy',
    };
    this.#tries = options.tries ?? 4;
    this.#failuresPerTrajectory = options.failuresPerTrajectory ?? 32;
    this.#backoffMs = options.backoffMs ?? 250;
    this.#longestBackoffMs = options.longestBackoffMs ?? 10_000;
    this.#requestMs = 1000 * (options.secondsPerRequest ?? Number.POSITIVE_INFINITY);
    this.#whileUpdating = options.whileUpdating;
    this.#clock = options.clock ?? realClock();
    this.#fleet = new Fleet(servers, {
      whileUpdating: this.#whileUpdating,
      restartMs: 1000 * (options.restartSeconds ?? 0),
      clock: this.#clock,
      log: options.log ?? (() => {}),
      signal: options.signal,
      onLost: (member) => {
        for (const [trajectory, home] of this.#home) if (home === member) this.#home.delete(trajectory);
        this.#admission?.lost(member);
      },
      onBack: () => this.#admission?.wake(),
    });
    const { policy, ceiling, predict } = options;
    this.#ceiling = ceiling && { ...CEILING_RULES, ...ceiling };
    if (!policy && !ceiling) return;
    const members = () => this.#fleet.members;
    this.#admission = new Admission({ policy: policy ?? firstCome(), clock: this.#clock, members, predict });
    for (const member of this.#fleet.members) this.#startCeiling(member);
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    const { trajectory, place } = request;
    const asked = { trajectory, turn: place?.turn, since: this.#clock.now() };
    const open: Asked = { ...asked, tries: 0, server: undefined };
    this.#open.add(open);
    try {
      return await this.#generate(request, open);
    } finally {
      this.#open.delete(open);
    }
  }

  /** Requests that have no reply yet, oldest first. */
  requests(): readonly OpenRequest[] {
    const now = this.#clock.now();
    return [...this.#open].map(({ since, ...request }) => ({ ...request, waitedMs: now - since }));
  }

  async #generate(request: GenerateRequest, open: Asked): Promise<GenerateResult> {
    const failures: Failure[] = [];
    const asked = open.since;
    let busyTries = 0;
    let last: unknown;
    for (;;) {
      if (this.#fleet.up().length === 0) {
        await this.#fleet.untilOneIsUp(request.signal).catch((error: unknown) => {
          throw gaveUp(request, failures.length, last ?? error);
        });
      }
      const failed = failures.map((failure) => failure.member);
      const member = this.#admission
        ? await this.#admitted(this.#admission, request, failed)
        : this.#choose(request.trajectory, failed);
      member.requests++;
      open.tries++;
      open.server = member.name;
      const waitedMs = this.#clock.now() - asked;
      const told = new ToldTokens();
      const listened = told.listen(request, () => member.version ?? 0);
      let reply: GenerateResult | undefined;
      let wait: number;
      try {
        const sent = member.version;
        if (this.#whileUpdating === 'wait' && member.updating)
          await this.#fleet.untilUpdated(member, request.signal);
        const answer = await (this.#requestMs === Number.POSITIVE_INFINITY
          ? member.server.generate(listened)
          : this.#inTime(member, listened));
        this.#fleet.checkVersion(member, answer, sent);
        countReply(member, answer);
        reply = answer;
        return { ...reply, server: member.name, ...(this.#admission && { waitedMs }) };
      } catch (error) {
        // An abort that the server did not even answer is the server's failure.
        if (request.signal?.aborted) throw error instanceof EngineError ? error : request.signal.reason;
        if (error instanceof ConfigError || isRefusal(error)) throw error; // wrong everywhere
        last = error;
        const partial = told.partial(request);
        if (partial) {
          await this.#countFailure(request, [{ member, error }]);
          countReply(member, partial);
          reply = partial;
          return { ...partial, server: member.name, ...(this.#admission && { waitedMs }) };
        }
        if (isBusy(error) && this.#clock.now() - asked < BUSY_MS) {
          wait = Math.min(this.#backoffMs * 2 ** busyTries++, LONGEST_BUSY_MS);
        } else {
          failures.push({ member, error });
          await this.#countFailure(request, failures);
          wait = Math.min(this.#backoffMs * 2 ** (failures.length - 1), this.#longestBackoffMs);
        }
      } finally {
        member.inFlight--;
        this.#admission?.leave(member, request, reply);
        if (this.#admission) void this.#report(member);
        this.#fleet.letGo(member);
        open.server = undefined;
      }
      await sleep(this.#clock, wait, request.signal).catch(() => {
        throw gaveUp(request, failures.length, last);
      });
    }
  }

  /** A further server, with the newest weights before its first request. */
  async add(server: InferenceServer): Promise<void> {
    const member = this.#fleet.create(server);
    this.#startCeiling(member);
    await this.#report(member);
    await this.#fleet.join(member);
    this.#admission?.wake();
  }

  /** No new request from now on; resolves at once, and the server is closed when its last request has ended. */
  remove(name: string): void {
    this.#fleet.remove(name);
  }

  ended(trajectory: string): void {
    this.#home.delete(trajectory);
    this.#failures.delete(trajectory);
    this.#admission?.ended(trajectory);
    for (const { server } of this.#fleet.members) server.ended?.(trajectory);
  }

  /** Requests that wait for a server. */
  get waiting(): number {
    return this.#admission?.waiting ?? 0;
  }

  /** Whether every server is getting new weights at this moment. */
  get isUpdating(): boolean {
    const up = this.#fleet.up();
    return up.length > 0 && up.every(({ updating }) => updating !== undefined);
  }

  status(): readonly MemberStatus[] {
    return this.#fleet.members.map(statusOf);
  }

  /** Removes a server, until weights have been sent to it again or permanently; throws if none is left. */
  exclude(name: string, why: string, { forGood = false } = {}): void {
    this.#fleet.exclude(name, why, forGood);
  }

  /** The servers that answer now, by name. */
  servers(): readonly { readonly name: string; readonly server: InferenceServer }[] {
    return this.#fleet.up();
  }

  async info(): Promise<ServerInfo> {
    const infos = await Promise.all(this.#fleet.up().map(({ server }) => server.info()));
    const first = infos[0];
    if (!first) throw new EngineError(`no server is left: ${this.#fleet.reasons()}`);
    for (const info of infos) {
      if (info.vocabulary !== first.vocabulary) {
        throw new EngineError(
          `servers of one gateway differ: ${first.model} has ${first.vocabulary} tokens, ${info.model} has ${info.vocabulary}`,
        );
      }
    }
    return {
      ...first,
      contextTokens: Math.min(...infos.map(({ contextTokens }) => contextTokens)),
      version: Math.min(...infos.map(({ version }) => version)),
      can: new Set([...first.can].filter((ability) => infos.every(({ can }) => can.has(ability)))),
    };
  }

  async ready(signal?: AbortSignal): Promise<boolean> {
    const all = await Promise.all(this.#fleet.members.map(({ server }) => server.ready(signal)));
    return all.every(Boolean);
  }

  pause(mode: 'abort' | 'wait' | 'keep') {
    return this.#fleet.all((server) => server.pause(mode));
  }

  resume() {
    return this.#fleet.all((server) => server.resume());
  }

  /** Every server that can be reached gets the weights, those that were lost too; throws if none has them. */
  update(weights: WeightUpdate): Promise<void> {
    return this.#fleet.update(weights);
  }

  /** For weights that are moved to the servers from outside: requests pause until every server has noted the version. */
  async updateWhile(move: () => Promise<WeightUpdate>): Promise<WeightUpdate> {
    if (this.#whileUpdating) await this.pause(this.#whileUpdating);
    try {
      const weights = await move();
      await this.#fleet.update(weights);
      return weights;
    } finally {
      if (this.#whileUpdating) await this.resume();
    }
  }

  sleep() {
    return this.#fleet.all((server) => server.sleep?.());
  }

  wake() {
    return this.#fleet.all((server) => server.wake?.());
  }

  async close(): Promise<void> {
    await Promise.all(this.#fleet.members.map(({ server }) => server.close()));
  }

  /** The server that answers, with the request counted as in flight there. */
  async #admitted(
    admission: Admission,
    request: GenerateRequest,
    failed: readonly Member[],
  ): Promise<Member> {
    this.#firstReports ??= Promise.all(this.#fleet.members.map((member) => this.#report(member)));
    await this.#firstReports;
    return admission.enter(request, failed);
  }

  #startCeiling(member: Member): void {
    if (this.#ceiling && member.server.load) member.ceiling = this.#ceiling.first;
  }

  /** Asks a server for its load, not too often; its ceiling follows. A server that does not answer keeps what it has. */
  async #report(member: Member): Promise<void> {
    const { everyMs } = this.#ceiling ?? CEILING_RULES;
    if (!this.#admission || !member.server.load || this.#clock.now() - member.reportedAt < everyMs) return;
    member.reportedAt = this.#clock.now();
    const limits = { milliseconds: READY_MS, clock: this.#clock };
    const load = await withTimeLimit((signal) => member.server.load!(signal), limits).catch(() => undefined);
    if (!load) return;
    if (this.#ceiling) member.ceiling = nextCeiling(member, load, member.load, this.#ceiling);
    member.mostInFlight = member.inFlight;
    member.load = load;
    this.#admission.wake();
  }

  /** Chooses a server as `#admitted` does, when there is no queue. */
  #choose(trajectory: string, failed: readonly Member[]): Member {
    const home = this.#home.get(trajectory);
    const member =
      route(this.#fleet.members, { trajectory, home, failed }, this.#rules) ??
      // All are down: the next try may find one that is back.
      this.#fleet.members.find(({ leaving }) => !leaving)!;
    member.inFlight++;
    if (member !== home) remember(this.#home, trajectory, member);
    return member;
  }

  /** Throws when the request, or its trajectory, has failed too often. */
  async #countFailure(request: GenerateRequest, failures: readonly Failure[]): Promise<void> {
    const { member, error } = failures.at(-1)!;
    member.failures++;
    if (this.#home.get(request.trajectory) === member) this.#home.delete(request.trajectory);
    if (!(await this.#fleet.isReady(member))) this.#fleet.lose(member, error);
    const spent = (this.#failures.get(request.trajectory) ?? 0) + 1;
    remember(this.#failures, request.trajectory, spent);
    if (failures.length >= this.#tries) throw gaveUp(request, failures.length, error);
    if (spent >= this.#failuresPerTrajectory) throw gaveUp(request, failures.length, error, spent);
  }

  async #inTime({ name, server }: Member, request: GenerateRequest): Promise<GenerateResult> {
    const limit = new AbortController();
    const late = new EngineError(`${name} had no answer to ${request.id} in ${this.#requestMs} ms`);
    const cancel = this.#clock.timer(this.#requestMs, () => limit.abort(late));
    const signal = request.signal ? AbortSignal.any([request.signal, limit.signal]) : limit.signal;
    try {
      const reply = await server.generate({ ...request, signal });
      if (reply.finish === 'abort' && limit.signal.aborted && !request.signal?.aborted) throw late;
      return reply;
    } finally {
      cancel();
    }
  }
}

/** The oldest go first. */
function remember<V>(map: Map<string, V>, trajectory: string, value: V): void {
  map.set(trajectory, value);
  if (map.size > REMEMBERED_TRAJECTORIES) map.delete(map.keys().next().value!);
}

const isBusy = (error: unknown) => error instanceof EngineError && error.reason === 'busy';
const isRefusal = (error: unknown) => error instanceof EngineError && error.reason === 'refused';

function gaveUp(request: GenerateRequest, tries: number, last: unknown, ofTrajectory?: number): EngineError {
  const before = ofTrajectory === undefined ? '' : `, ${ofTrajectory} of its trajectory`;
  return new EngineError(
    `no server answered request ${request.id} in ${tries} tries${before}; last: ${messageOf(last)}`,
    { cause: last },
  );
}

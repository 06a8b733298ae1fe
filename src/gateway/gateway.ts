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
import { withTimeLimit } from '../lib/time-limit.ts';
import { Admission } from './admission.ts';
import { CEILING_RULES, type CeilingRules, nextCeiling } from './ceiling.ts';
import { countReply, createMember, type Member, type MemberStatus, statusOf } from './member.ts';
import { firstCome } from './policies/first-come.ts';
import { type RouteRules, route } from './route.ts';
import type { Policy } from './scheduling-view.ts';

export interface GatewayOptions extends Partial<RouteRules> {
  /** Tries of one request, over all servers. */
  readonly tries?: number;
  /** Failed tries of one trajectory, over all its requests; its time is a limit of the run. */
  readonly failuresPerTrajectory?: number;
  /** Wait before the second try; doubles each time. */
  readonly backoffMs?: number;
  readonly longestBackoffMs?: number;
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
  /** Told when a server is lost, is back, or is taken out. */
  readonly log?: (line: string) => void;
}

/** Several servers of one model, as one. */
export function gateway(servers: readonly InferenceServer[], options: GatewayOptions = {}): Gateway {
  if (servers.length === 0) throw new ConfigError('a gateway needs at least one server, and was given none');
  return new Gateway(servers, options);
}

interface Failure {
  readonly member: Member;
  readonly error: unknown;
}

/** Far more than run at once. */
const REMEMBERED_TRAJECTORIES = 100_000;
const READY_MS = 5000;

export class Gateway implements InferenceServer {
  #members: readonly Member[];
  readonly #home = new Map<string, Member>();
  readonly #rules: RouteRules;
  readonly #tries: number;
  readonly #failuresPerTrajectory: number;
  /** Of trajectories that had any. */
  readonly #failures = new Map<string, number>();
  readonly #backoffMs: number;
  readonly #longestBackoffMs: number;
  readonly #requestMs: number;
  readonly #whileUpdating: GatewayOptions['whileUpdating'];
  readonly #clock: Clock;
  readonly #log: (line: string) => void;
  readonly #admission: Admission | undefined;
  readonly #ceiling: CeilingRules | undefined;
  /** Policies go by the servers' memory, so nothing is sent before it is known. */
  #firstReports: Promise<unknown> | undefined;
  /** What a server that is back or new must have before it answers. */
  #weights: WeightUpdate | undefined;
  #recovering: Promise<void> | undefined;
  #named = 0;

  constructor(servers: readonly InferenceServer[], options: GatewayOptions) {
    this.#members = servers.map((server) => createMember(server, this.#named++));
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
    this.#log = options.log ?? (() => {});
    const { policy, ceiling, predict } = options;
    this.#ceiling = ceiling && { ...CEILING_RULES, ...ceiling };
    if (!policy && !ceiling) return;
    const members = () => this.#members;
    this.#admission = new Admission({ policy: policy ?? firstCome(), clock: this.#clock, members, predict });
    for (const member of this.#members) this.#startCeiling(member);
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    const failures: Failure[] = [];
    const asked = this.#clock.now();
    for (;;) {
      const failed = failures.map((failure) => failure.member);
      const member = this.#admission
        ? await this.#admitted(this.#admission, request, failed)
        : this.#choose(request.trajectory, failed);
      member.requests++;
      const waitedMs = this.#clock.now() - asked;
      let reply: GenerateResult | undefined;
      try {
        const sent = member.version;
        if (this.#whileUpdating === 'wait' && member.updating) await this.#untilUpdated(member, request);
        const answer = await (this.#requestMs === Number.POSITIVE_INFINITY
          ? member.server.generate(request)
          : this.#inTime(member, request));
        this.#checkVersion(member, answer, sent);
        countReply(member, answer);
        reply = answer;
        return { ...reply, server: member.name, ...(this.#admission && { waitedMs }) };
      } catch (error) {
        request.signal?.throwIfAborted();
        if (error instanceof ConfigError) throw error; // wrong everywhere
        member.failures++;
        failures.push({ member, error });
        if (this.#home.get(request.trajectory) === member) this.#home.delete(request.trajectory);
        if (!(await this.#isReady(member))) this.#lose(member, error);
        const spent = (this.#failures.get(request.trajectory) ?? 0) + 1;
        remember(this.#failures, request.trajectory, spent);
        if (failures.length >= this.#tries) throw gaveUp(request, failures);
        if (spent >= this.#failuresPerTrajectory) throw gaveUp(request, failures, spent);
      } finally {
        member.inFlight--;
        this.#admission?.leave(member, request, reply);
        if (this.#admission) void this.#report(member);
        this.#letGo(member);
      }
      const wait = this.#backoffMs * 2 ** (failures.length - 1);
      await sleep(this.#clock, Math.min(wait, this.#longestBackoffMs), request.signal);
      if (this.#up().length > 0) continue;
      this.#recovering ??= this.#recover().finally(() => {
        this.#recovering = undefined;
      });
      await this.#recovering;
    }
  }

  /** A further server, with the newest weights before its first request. */
  async add(server: InferenceServer): Promise<void> {
    const member = createMember(server, this.#named++);
    this.#startCeiling(member);
    if (this.#weights) await this.#send(member, this.#weights);
    await this.#report(member);
    this.#members = [...this.#members, member];
    this.#admission?.wake();
  }

  /** No new request from now on; resolves at once, and the server is closed when its last request has ended. */
  remove(name: string): void {
    const member = this.#members.find((one) => one.name === name);
    if (!member)
      throw new ConfigError(
        `no server ${name}; there are ${this.#members.map((one) => one.name).join(', ')}`,
      );
    if (this.#members.filter(({ leaving }) => !leaving).length === 1) {
      throw new ConfigError(`${name} is the last server; add another before it is removed`);
    }
    member.leaving = true;
    for (const [trajectory, home] of this.#home) if (home === member) this.#home.delete(trajectory);
    this.#admission?.lost(member);
    this.#letGo(member);
  }

  ended(trajectory: string): void {
    this.#home.delete(trajectory);
    this.#failures.delete(trajectory);
    this.#admission?.ended(trajectory);
    for (const { server } of this.#members) server.ended?.(trajectory);
  }

  /** Requests that wait for a server. */
  get waiting(): number {
    return this.#admission?.waiting ?? 0;
  }

  status(): readonly MemberStatus[] {
    return this.#members.map(statusOf);
  }

  /** Takes a server out, until weights have been sent to it again or for good; throws if none is left. */
  exclude(name: string, why: string, { forGood = false } = {}): void {
    const member = this.#members.find((one) => one.name === name);
    if (!member) return;
    this.#lose(member, new EngineError(why));
    if (this.#up().length === 0) throw new EngineError(`no server is left: ${this.#reasons()}`);
    member.leaving = forGood;
    this.#letGo(member);
  }

  /** The servers that answer now, by name. */
  servers(): readonly { readonly name: string; readonly server: InferenceServer }[] {
    return this.#up();
  }

  async info(): Promise<ServerInfo> {
    const infos = await Promise.all(this.#up().map(({ server }) => server.info()));
    const first = infos[0];
    if (!first) throw new EngineError(`no server is left: ${this.#reasons()}`);
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
    const all = await Promise.all(this.#members.map(({ server }) => server.ready(signal)));
    return all.every(Boolean);
  }

  pause(mode: 'abort' | 'wait' | 'keep') {
    return this.#all((server) => server.pause(mode));
  }

  resume() {
    return this.#all((server) => server.resume());
  }

  /** Every server that can be reached gets the weights, those that were lost too; throws if none has them. */
  async update(weights: WeightUpdate): Promise<void> {
    this.#weights = weights;
    await Promise.all(
      this.#members.map(async (member) => {
        if (member.down !== undefined && !(await this.#isReady(member))) return;
        try {
          await this.#send(member, weights);
        } catch (error) {
          if (error instanceof ConfigError) throw error;
          this.#lose(member, error);
        }
      }),
    );
    if (this.#up().length > 0) return;
    throw new EngineError(`no server took version ${weights.version} of the weights: ${this.#reasons()}`);
  }

  sleep() {
    return this.#all((server) => server.sleep?.());
  }

  wake() {
    return this.#all((server) => server.wake?.());
  }

  async close(): Promise<void> {
    await Promise.all(this.#members.map(({ server }) => server.close()));
  }

  /** The server that answers, with the request counted as in flight there. */
  async #admitted(
    admission: Admission,
    request: GenerateRequest,
    failed: readonly Member[],
  ): Promise<Member> {
    this.#firstReports ??= Promise.all(this.#members.map((member) => this.#report(member)));
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

  /** As `#admitted`, where none waits. */
  #choose(trajectory: string, failed: readonly Member[]): Member {
    const home = this.#home.get(trajectory);
    const member =
      route(this.#members, { trajectory, home, failed }, this.#rules) ??
      // All are down: the next try may find one that is back.
      this.#members.find(({ leaving }) => !leaving)!;
    member.inFlight++;
    if (member !== home) remember(this.#home, trajectory, member);
    return member;
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

  /** Waiting for weights is not counted as a server's time to answer. */
  async #untilUpdated(member: Member, { signal }: GenerateRequest): Promise<void> {
    const limits = { milliseconds: Number.POSITIVE_INFINITY, clock: this.#clock, signal };
    await withTimeLimit(() => member.updating, limits);
    if (member.down !== undefined) throw new EngineError(`${member.name} is out: ${member.down}`);
  }

  /** A server that was started anew answers with the weights it was started with. */
  #checkVersion(member: Member, { versions }: GenerateResult, sent: number | undefined): void {
    const last = versions.at(-1)?.version;
    if (sent === undefined || last === undefined || last >= sent) return;
    const stale = new EngineError(
      `${member.name} answered with version ${last} of the weights; it was sent ${sent}`,
    );
    this.#lose(member, stale);
    throw stale;
  }

  async #send(member: Member, weights: WeightUpdate): Promise<void> {
    const sending = this.#deliver(member, weights);
    const settled = sending.catch(() => {});
    member.updating = settled;
    try {
      await sending;
    } finally {
      if (member.updating === settled) member.updating = undefined;
    }
  }

  async #deliver(member: Member, weights: WeightUpdate): Promise<void> {
    const { server } = member;
    if (this.#whileUpdating) await server.pause(this.#whileUpdating);
    try {
      await server.update(weights);
    } catch (error) {
      if (this.#whileUpdating) await server.resume().catch(() => {}); // so that none waits for it
      throw error;
    }
    if (this.#whileUpdating) await server.resume();
    member.version = weights.version;
    if (member.down !== undefined) this.#log(`${member.name} is back, with version ${weights.version}`);
    member.down = undefined;
    this.#admission?.wake();
  }

  async #isReady({ server }: Member): Promise<boolean> {
    try {
      return await withTimeLimit((signal) => server.ready(signal), {
        milliseconds: READY_MS,
        clock: this.#clock,
      });
    } catch {
      return false;
    }
  }

  #lose(member: Member, error: unknown): void {
    if (member.down === undefined) this.#log(`${member.name} is out: ${reasonOf(error)}`);
    member.down = reasonOf(error);
    for (const [trajectory, home] of this.#home) if (home === member) this.#home.delete(trajectory);
    this.#admission?.lost(member);
  }

  /** None answers: those that are ready again get the newest weights and may. */
  async #recover(): Promise<void> {
    await Promise.all(
      this.#members.map(async (member) => {
        if (!(await this.#isReady(member))) return;
        if (this.#weights) await this.#send(member, this.#weights).catch(() => {});
        else member.down = undefined;
      }),
    );
  }

  #letGo(member: Member): void {
    if (!member.leaving || member.inFlight > 0 || !this.#members.includes(member)) return;
    this.#members = this.#members.filter((one) => one !== member);
    void member.server.close().catch(() => {});
  }

  #up(): readonly Member[] {
    return this.#members.filter(({ down, leaving }) => down === undefined && !leaving);
  }

  #reasons(): string {
    return this.#members.map(({ name, down }) => `${name}: ${down ?? 'is leaving'}`).join('; ');
  }

  async #all(act: (server: InferenceServer) => Promise<void> | undefined): Promise<void> {
    await Promise.all(this.#up().map(({ server }) => act(server)));
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The oldest go first. */
function remember<V>(map: Map<string, V>, trajectory: string, value: V): void {
  map.set(trajectory, value);
  if (map.size > REMEMBERED_TRAJECTORIES) map.delete(map.keys().next().value!);
}

function gaveUp(request: GenerateRequest, failures: readonly Failure[], ofTrajectory?: number): EngineError {
  const last = failures.at(-1)!.error;
  const before = ofTrajectory === undefined ? '' : `, ${ofTrajectory} of its trajectory`;
  return new EngineError(
    `no server answered request ${request.id} in ${failures.length} tries${before}; last: ${reasonOf(last)}`,
    { cause: last },
  );
}

import { ConfigError, EngineError } from '../errors.ts';
import type { GenerateResult, InferenceServer, WeightUpdate } from '../inference/server.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { messageOf } from '../lib/error-message.ts';
import { withTimeLimit } from '../lib/time-limit.ts';
import { createMember, type Member } from './member.ts';

interface FleetOptions {
  /** What happens to requests that run while weights are sent. */
  readonly whileUpdating: 'abort' | 'wait' | 'keep' | undefined;
  /** How long a server may take to come back when none answers. */
  readonly restartMs: number;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
  readonly log: (line: string) => void;
  onLost(member: Member): void;
  onBack(): void;
}

const READY_MS = 5000;
const RESTART_POLL_MS = 1000;

/** The servers of a gateway: which answer, which are out and why, and which weights they have. */
export class Fleet {
  #members: readonly Member[];
  readonly #options: FleetOptions;
  /** What a server that is back or new must have before it answers. */
  #weights: WeightUpdate | undefined;
  #recovering: Promise<void> | undefined;
  /** When it was first seen that no server answers. */
  #downSince: number | undefined;
  #named = 0;

  constructor(servers: readonly InferenceServer[], options: FleetOptions) {
    this.#options = options;
    this.#members = servers.map((server) => this.create(server));
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  /** Those that answer now. */
  up(): readonly Member[] {
    return this.#members.filter(({ down, leaving }) => down === undefined && !leaving);
  }

  reasons(): string {
    return this.#members.map(({ name, down }) => `${name}: ${down ?? 'is leaving'}`).join('; ');
  }

  async all(act: (server: InferenceServer) => Promise<void> | undefined): Promise<void> {
    await Promise.all(this.up().map(({ server }) => act(server)));
  }

  /** Not yet among the others: it joins when it has the newest weights. */
  create(server: InferenceServer): Member {
    return createMember(server, this.#named++);
  }

  /** With the newest weights, also if newer ones come while it loads them. */
  async join(member: Member): Promise<void> {
    while (this.#weights && member.version !== this.#weights.version) {
      await this.#send(member, this.#weights);
    }
    this.#members = [...this.#members, member];
  }

  /** No new request from now on; it is closed when its last request has ended. */
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
    this.#options.onLost(member);
    this.letGo(member);
  }

  /** Removes a server, until weights have been sent to it again or permanently; throws if none is left. */
  exclude(name: string, why: string, forGood: boolean): void {
    const member = this.#members.find((one) => one.name === name);
    if (!member) return;
    this.lose(member, new EngineError(why));
    if (this.up().length === 0) throw new EngineError(`no server is left: ${this.reasons()}`);
    member.leaving ||= forGood;
    this.letGo(member);
  }

  lose(member: Member, error: unknown): void {
    if (member.down === undefined) this.#options.log(`${member.name} is out: ${messageOf(error)}`);
    member.down = messageOf(error);
    this.#options.onLost(member);
  }

  /** A server that leaves is closed once its last request has ended. */
  letGo(member: Member): void {
    if (!member.leaving || member.inFlight > 0 || !this.#members.includes(member)) return;
    this.#members = this.#members.filter((one) => one !== member);
    void member.server.close().catch(() => {});
  }

  async isReady({ server }: Member): Promise<boolean> {
    const limits = { milliseconds: READY_MS, clock: this.#options.clock };
    try {
      return await withTimeLimit((signal) => server.ready(signal), limits);
    } catch {
      return false;
    }
  }

  /** Every server that can be reached gets the weights, those that were lost too; throws if none has them. */
  async update(weights: WeightUpdate): Promise<void> {
    this.#weights = weights;
    await Promise.all(
      this.#members.map(async (member) => {
        if (member.down !== undefined && !(await this.isReady(member))) return;
        try {
          await this.#send(member, weights);
        } catch (error) {
          if (error instanceof ConfigError) throw error;
          this.lose(member, error);
        }
      }),
    );
    if (this.up().length === 0 && this.#options.restartMs > 0) await this.untilOneIsUp();
    if (this.up().length > 0) return;
    throw new EngineError(`no server took version ${weights.version} of the weights: ${this.reasons()}`);
  }

  /**
   * None answers: those that are ready again get the newest weights and may. Where none is, it waits as long as a start
   * may take, which is counted from the moment the last one was gone.
   */
  async untilOneIsUp(signal?: AbortSignal): Promise<void> {
    this.#recovering ??= this.#untilOneIsUp().finally(() => {
      this.#recovering = undefined;
    });
    const recovering = this.#recovering;
    const limits = { milliseconds: Number.POSITIVE_INFINITY, clock: this.#options.clock, signal };
    await withTimeLimit(() => recovering, limits);
  }

  /** Waiting for weights is not counted as a server's time to answer. */
  async untilUpdated(member: Member, signal: AbortSignal | undefined): Promise<void> {
    const limits = { milliseconds: Number.POSITIVE_INFINITY, clock: this.#options.clock, signal };
    await withTimeLimit(() => member.updating, limits);
    if (member.down !== undefined) throw new EngineError(`${member.name} is out: ${member.down}`);
  }

  /** A restarted server answers with the weights it was started with. */
  checkVersion(member: Member, { versions }: GenerateResult, sent: number | undefined): void {
    const last = versions.at(-1)?.version;
    if (sent === undefined || last === undefined || last >= sent) return;
    const stale = new EngineError(
      `${member.name} answered with version ${last} of the weights; it was sent ${sent}`,
    );
    this.lose(member, stale);
    throw stale;
  }

  async #untilOneIsUp(): Promise<void> {
    const { clock, restartMs, log, signal } = this.#options;
    if (this.#downSince === undefined && restartMs > 0) {
      log(`no server answers; one that is back within ${restartMs / 1000} s gets the newest weights`);
    }
    this.#downSince ??= clock.now();
    for (;;) {
      await this.#recover();
      if (this.up().length > 0) {
        this.#downSince = undefined;
        return;
      }
      if (clock.now() - this.#downSince >= restartMs) return;
      await sleep(clock, RESTART_POLL_MS, signal);
    }
  }

  async #recover(): Promise<void> {
    await Promise.all(
      this.#members.map(async (member) => {
        if (member.leaving || !(await this.isReady(member))) return;
        if (this.#weights) await this.#send(member, this.#weights).catch((error) => this.lose(member, error));
        else member.down = undefined;
      }),
    );
  }

  async #send(member: Member, weights: WeightUpdate): Promise<void> {
    while (member.updating) await member.updating; // one after another
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
    const { log, onBack } = this.#options;
    // An adapter has another name for each version, so requests in progress keep theirs. Weights that were pushed are
    // there already: the gateway paused the servers meanwhile.
    const needsPause = weights.kind !== 'lora' && weights.kind !== 'pushed';
    const whileUpdating = needsPause ? this.#options.whileUpdating : undefined;
    if (whileUpdating) await server.pause(whileUpdating);
    try {
      await server.update(weights);
    } catch (error) {
      if (whileUpdating) await server.resume().catch(() => {}); // so that none waits for it
      throw error;
    }
    if (whileUpdating) await server.resume();
    member.version = weights.version;
    if (member.down !== undefined) log(`${member.name} is back, with version ${weights.version}`);
    member.down = undefined;
    onBack();
  }
}

/**
 * Which server answers which request. A trajectory stays with its server, whose cache holds its prefix; a new one
 * goes where the fewest requests are in flight; a request that failed is sent elsewhere with the same ids.
 */
import { ConfigError, EngineError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, InferenceServer, ServerInfo } from '../inference/server.ts';
import { type Clock, realClock, sleep } from '../lib/clock.ts';

export interface GatewayOptions {
  /** Tries of one request, over all servers. */
  readonly tries?: number;
  /** Wait before the second try; doubles each time. */
  readonly backoffMs?: number;
  readonly longestBackoffMs?: number;
  readonly clock?: Clock;
}

/** Several servers of one model, as one. */
export function gateway(servers: readonly InferenceServer[], options: GatewayOptions = {}): InferenceServer {
  if (servers.length === 0) throw new ConfigError('a gateway needs at least one server, and was given none');
  return new Gateway(servers, options);
}

interface Member {
  readonly server: InferenceServer;
  inFlight: number;
}

/** Trajectories whose server is remembered; far more than run at once. */
const REMEMBERED_TRAJECTORIES = 100_000;

class Gateway implements InferenceServer {
  readonly #members: readonly Member[];
  readonly #home = new Map<string, Member>();
  readonly #tries: number;
  readonly #backoffMs: number;
  readonly #longestBackoffMs: number;
  readonly #clock: Clock;

  constructor(servers: readonly InferenceServer[], options: GatewayOptions) {
    this.#members = servers.map((server) => ({ server, inFlight: 0 }));
    this.#tries = options.tries ?? 4;
    this.#backoffMs = options.backoffMs ?? 250;
    this.#longestBackoffMs = options.longestBackoffMs ?? 10_000;
    this.#clock = options.clock ?? realClock();
  }

  async generate(request: GenerateRequest): Promise<GenerateResult> {
    const failures: { readonly member: Member; readonly error: unknown }[] = [];
    for (;;) {
      const member = this.#choose(
        request.trajectory,
        failures.map((failure) => failure.member),
      );
      member.inFlight++;
      try {
        return await member.server.generate(request);
      } catch (error) {
        request.signal?.throwIfAborted();
        if (error instanceof ConfigError) throw error; // wrong everywhere
        failures.push({ member, error });
        this.#home.delete(request.trajectory);
        if (failures.length >= this.#tries) throw gaveUp(request, failures);
      } finally {
        member.inFlight--;
      }
      const wait = this.#backoffMs * 2 ** (failures.length - 1);
      await sleep(this.#clock, Math.min(wait, this.#longestBackoffMs), request.signal);
    }
  }

  /** Where the trajectory was; else, of the servers that failed it least, the one least in use. */
  #choose(trajectory: string, failed: readonly Member[]): Member {
    const home = this.#home.get(trajectory);
    if (home) return home;
    const failures = (member: Member) => failed.filter((other) => other === member).length;
    const [best] = [...this.#members].sort((a, b) => failures(a) - failures(b) || a.inFlight - b.inFlight);
    this.#home.set(trajectory, best!);
    if (this.#home.size > REMEMBERED_TRAJECTORIES) this.#home.delete(this.#home.keys().next().value!);
    return best!;
  }

  async info(): Promise<ServerInfo> {
    const infos = await Promise.all(this.#members.map(({ server }) => server.info()));
    const first = infos[0]!;
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

  update(weights: Parameters<InferenceServer['update']>[0]) {
    return this.#all((server) => server.update(weights));
  }

  sleep() {
    return this.#all((server) => server.sleep?.());
  }

  wake() {
    return this.#all((server) => server.wake?.());
  }

  close() {
    return this.#all((server) => server.close());
  }

  async #all(act: (server: InferenceServer) => Promise<void> | undefined): Promise<void> {
    await Promise.all(this.#members.map(({ server }) => act(server)));
  }
}

function gaveUp(request: GenerateRequest, failures: readonly { readonly error: unknown }[]): EngineError {
  const last = failures.at(-1)!.error;
  const why = last instanceof Error ? last.message : String(last);
  return new EngineError(
    `no server answered request ${request.id} in ${failures.length} tries; last: ${why}`,
    {
      cause: last,
    },
  );
}

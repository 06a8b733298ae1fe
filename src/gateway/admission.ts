/**
 * The queue before the servers: requests wait here until a policy sends them. It keeps what policies go by (which
 * trajectories a server keeps, how long they are, what is known of their siblings) and carries out their decisions.
 */
import type { GenerateRequest, GenerateResult } from '../inference/server.ts';
import type { Clock } from '../lib/clock.ts';
import type { Member } from './member.ts';
import { groupOf, LengthPrediction } from './prediction.ts';
import type { Policy, ServerView, WaitingRequest } from './scheduling-view.ts';

/** Trajectories that are known at once; those that are never said to have ended are forgotten beyond it. */
const REMEMBERED_TRAJECTORIES = 100_000;

export interface AdmissionOptions {
  readonly policy: Policy;
  readonly clock: Clock;
  readonly members: () => readonly Member[];
  /** Tokens that a trajectory will still sample, for who knows better than its siblings do. */
  readonly predict?: ((request: GenerateRequest) => number) | undefined;
}

/** A trajectory, between its first request and its end. */
interface Program {
  readonly group: string;
  readonly begun: number;
  home: Member | undefined;
  /** Counted among what its home keeps. */
  keptTokens: number;
  sampledTokens: number;
}

interface Queued extends WaitingRequest {
  readonly request: GenerateRequest;
  readonly program: Program;
  predictedTokens: number;
  unknown: boolean;
  send(member: Member): void;
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #prediction = new LengthPrediction();
  readonly #programs = new Map<string, Program>();
  readonly #kept = new Map<Member, number>();
  #waiting: Queued[] = [];
  #dispatching = false;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves with the server that answers, on which the request is already counted as in flight. */
  enter(request: GenerateRequest, failed: readonly Member[]): Promise<Member> {
    const { clock, predict } = this.#options;
    const { signal, trajectory, prompt } = request;
    const program = this.#programOf(request);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#waiting = this.#waiting.filter((one) => one !== queued);
        reject(signal!.reason);
        this.wake();
      };
      const queued: Queued = {
        id: request.id,
        trajectory,
        place: request.place,
        contextTokens: prompt.length,
        predictedTokens: predict?.(request) ?? this.#prediction.left(program.group, program.sampledTokens),
        unknown: !predict && !this.#prediction.knows(program.group),
        since: clock.now(),
        begun: program.begun,
        get home() {
          return program.home?.name;
        },
        get resident() {
          return program.keptTokens > 0;
        },
        failedOn: new Set(failed.map(({ name }) => name)),
        request,
        program,
        send: (member) => {
          signal?.removeEventListener('abort', onAbort);
          resolve(member);
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.push(queued);
      this.wake();
    });
  }

  /** A request has ended on the server it was sent to, with a reply or without. */
  leave(member: Member, request: GenerateRequest, reply?: GenerateResult): void {
    const program = this.#programs.get(request.trajectory);
    if (program && reply) {
      program.sampledTokens += reply.ids.length;
      this.#keep(program, member, request.prompt.length + reply.ids.length);
    } else if (program) this.#keep(program, undefined, 0);
    this.wake();
  }

  /** The trajectory sends no more; its siblings are guessed by it. */
  ended(trajectory: string): void {
    const program = this.#programs.get(trajectory);
    if (!program) return;
    this.#programs.delete(trajectory);
    this.#keep(program, undefined, 0);
    if (program.sampledTokens > 0) this.#prediction.learn(program.group, program.sampledTokens);
    if (!this.#options.predict) {
      for (const queued of this.#waiting) {
        if (queued.program.group !== program.group) continue;
        queued.unknown = false;
        queued.predictedTokens = this.#prediction.left(program.group, queued.program.sampledTokens);
      }
    }
    this.wake();
  }

  /** A server is gone, and with it what it kept. */
  lost(member: Member): void {
    for (const program of this.#programs.values()) {
      if (program.home === member) this.#keep(program, undefined, 0);
    }
    this.wake();
  }

  /** Something changed: the policy is asked once all that happens at this moment has. */
  wake(): void {
    if (this.#dispatching || this.#waiting.length === 0) return;
    this.#dispatching = true;
    this.#options.clock.timer(0, () => {
      this.#dispatching = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    const { policy, clock } = this.#options;
    while (this.#waiting.length > 0) {
      const members = this.#options.members().filter(({ down, leaving }) => down === undefined && !leaving);
      if (members.length === 0) this.#sendAnywhere();
      if (members.length === 0) return;
      const servers = members.map((member) => this.#viewOf(member));
      const decision = policy({ now: clock.now(), waiting: this.#waiting, servers });
      if (!decision) return;
      const queued = decision.request as Queued;
      if (decision.kind === 'pause') this.#keep(queued.program, queued.program.home, 0);
      else this.#send(queued, members[servers.indexOf(decision.server)]!);
    }
  }

  /** No server answers: the gateway handles the next failure. */
  #sendAnywhere(): void {
    const member = this.#options.members().find(({ leaving }) => !leaving);
    if (member) for (const queued of [...this.#waiting]) this.#send(queued, member);
  }

  #send(queued: Queued, member: Member): void {
    this.#waiting = this.#waiting.filter((one) => one !== queued);
    member.inFlight++;
    member.mostInFlight = Math.max(member.mostInFlight, member.inFlight);
    this.#keep(queued.program, member, queued.contextTokens);
    queued.send(member);
  }

  #keep(program: Program, home: Member | undefined, tokens: number): void {
    const change = (member: Member, by: number) => {
      const kept = (this.#kept.get(member) ?? 0) + by;
      if (kept > 0) this.#kept.set(member, kept);
      else this.#kept.delete(member);
    };
    if (program.home) change(program.home, -program.keptTokens);
    program.home = home;
    program.keptTokens = home ? tokens : 0;
    if (home) change(home, tokens);
  }

  #viewOf(member: Member): ServerView {
    const { name, inFlight, ceiling, load } = member;
    const kvTokens = load?.kvTokens ?? Number.POSITIVE_INFINITY;
    return { name, inFlight, ceiling, kvTokens, keptTokens: this.#kept.get(member) ?? 0 };
  }

  #programOf(request: GenerateRequest): Program {
    const known = this.#programs.get(request.trajectory);
    if (known) return known;
    const program: Program = {
      group: groupOf(request),
      begun: this.#options.clock.now(),
      home: undefined,
      keptTokens: 0,
      sampledTokens: 0,
    };
    this.#programs.set(request.trajectory, program);
    if (this.#programs.size > REMEMBERED_TRAJECTORIES) {
      const [oldest, forgotten] = this.#programs.entries().next().value!;
      this.#programs.delete(oldest);
      this.#keep(forgotten, undefined, 0);
    }
    return program;
  }
}

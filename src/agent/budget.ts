import type { GenerateResult } from '../inference/server.ts';
import type { Ending } from './ending.ts';
import type { Limits } from './limits.ts';

type Cut = 'tokens' | 'context';

/** Tokens that a reply may take. */
export interface Reservation {
  readonly tokens: number;
  /** The reply is there, or its request has failed: what it did not take is free again. */
  release(result?: Pick<GenerateResult, 'ids' | 'finish'>): void;
}

/** What is left of a trajectory's turns and tokens. Where a limit leaves no room, the trajectory ends. */
export class Budget {
  readonly #limits: Limits;
  readonly #ending: Ending;
  #turns = 0;
  #tokens = 0;
  /** The limit that cut the reply of a turn. */
  readonly #cuts = new Map<number, Cut>();

  constructor(limits: Limits, ending: Ending) {
    this.#limits = limits;
    this.#ending = ending;
  }

  /** Turns that have begun. */
  get turns(): number {
    return this.#turns;
  }

  /** The number of a new turn, in a chat that has this number of replies. */
  beginTurn(replies: number): number {
    this.#checkRoom(replies);
    return ++this.#turns;
  }

  /** Room for a reply of at most `asked` tokens. */
  reserve(
    turn: number,
    prompt: { readonly contextTokens: number; readonly observationTokens: number },
    asked: number = this.#limits.tokensPerReply,
  ): Reservation {
    const { tokensPerTrajectory, tokensPerReply, contextTokens } = this.#limits;
    const left = tokensPerTrajectory - this.#tokens - prompt.observationTokens;
    const room = contextTokens - prompt.contextTokens;
    if (left < 1) this.#ending.stop({ kind: 'truncated', why: 'tokens' });
    if (room < 1) this.#ending.stop({ kind: 'truncated', why: 'context' });
    const allowed = Math.min(tokensPerReply, left, room);
    const tokens = Math.min(asked, allowed);
    this.#tokens += prompt.observationTokens + tokens; // replies of other chats may be on their way too
    return {
      tokens,
      release: (result) => {
        this.#tokens -= tokens - (result?.ids.length ?? 0);
        if (result?.finish !== 'length' || tokens < allowed) return; // the agent asked for no more
        this.#cuts.set(turn, room < Math.min(left, tokensPerReply) ? 'context' : 'tokens');
      },
    };
  }

  /** The limit that cut the reply of a turn, if one did. */
  cutOf(turn: number): Cut | undefined {
    return this.#cuts.get(turn);
  }

  /** A reply that was cut is not obeyed, and calls of the last permitted turn are not run. */
  checkObeyed(turn: number, replies: number): void {
    const why = this.#cuts.get(turn);
    if (why) this.#ending.stop({ kind: 'truncated', why });
    this.#checkRoom(replies);
  }

  /** Tokens before turns, so that a trajectory out of both says tokens. */
  #checkRoom(replies: number): void {
    this.#ending.signal.throwIfAborted();
    const { tokensPerTrajectory, turns, answers } = this.#limits;
    if (this.#tokens >= tokensPerTrajectory) this.#ending.stop({ kind: 'truncated', why: 'tokens' });
    if (this.#turns >= turns || replies > answers) this.#ending.stop({ kind: 'truncated', why: 'turns' });
  }
}

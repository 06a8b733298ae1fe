/**
 * Whether servers really have the weights they were sent. Canary prompts are scored on each and compared with the
 * trainer's log-probs at this version (n) and at the last one proved on that server (o). With s = the server's,
 *
 *   E = Σ (s − o)² − (s − n)²     is  +Σ (n − o)²  on a server that has n, and  −Σ (n − o)²  on one that still has o,
 *
 * each ± 2σ √Σ(n − o)² by the noise σ of an engine's arithmetic. E is summed over syncs until it stands clear of the
 * noise; before that a server is unproven, which is not a failure. Rounding repeats itself from sync to sync, so while the
 * weights have moved less than half the residual (s − n)² of the first look, and the server is no further off than then, it is
 * not held to have older ones. A residual far above the first look's, and a fair share of all that the trainer has moved
 * since, is of a server that took only part of the weights. A server that declares the trainer's arithmetic must agree at
 * once; a server that offers a checksum of its weights must show another one when they have moved.
 */
import type { InferenceServer } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import { Checksums, stayedBehind } from './checksums.ts';

export interface Verdict {
  readonly name: string;
  /** `unreachable`: it could not be asked, which says nothing of its weights. */
  readonly state: 'proved' | 'unproven' | 'failed' | 'unreachable';
  /** Mean distance of its log-probs from the trainer's. */
  readonly distance: number;
  readonly why?: string;
  /** Some tensors are new and some are not. */
  readonly tookPart?: boolean;
}

/** Standard deviations of noise that evidence must exceed. */
const CLEAR = 5;
/** Mean distance at the first look that no arithmetic explains: another model. */
const OTHER_MODEL = 0.5;
/** Mean distance where server and trainer declare the same arithmetic. */
const SAME_ARITHMETIC = 1e-4;
/** A move, as a share of the first look's residual, within which rounding may look like older weights. */
const LITTLE_MOVE = 0.5;
/** Residual, as a multiple of the first look's, above which old weights can be distinguished from noise. All are squares. */
const ABOVE_NOISE = 1.5;
/** The same, above which part of the weights are missing: five times the distance. */
const PART_MISSING = 25;
/** Share of the move since the first look: a hundredth of its distance. A tied output layer that stays behind makes a tenth. */
const SHARE_OF_MOVE = 1e-4;
/** Below a distance of 1e-4 nothing is missing. */
const LEAST_MISSING = 1e-8;

interface Evidence {
  /** The trainer's log-probs at the last version proved here. */
  proved: Float32Array;
  sum: number;
  moved: number;
  /** The least squared residual per token seen: the engine's noise. */
  noise: number;
  /** The trainer's log-probs at the first look, and the squared residual then. */
  readonly first: { readonly trainer: Float32Array; readonly residual: number };
}

type Attested = Pick<InferenceServer, 'generate' | 'info' | 'checksum'>;

export class Attestor {
  readonly #prompts: readonly Int32Array[];
  readonly #arithmetic: string | undefined;
  readonly #evidence = new Map<string, Evidence>();
  readonly #checksums = new Checksums();
  #before: Float32Array | undefined;
  #call = 0;

  /** A few prompts of some dozen tokens each, and the trainer's arithmetic. */
  constructor(prompts: readonly Int32Array[], arithmetic?: string) {
    this.#prompts = prompts;
    this.#arithmetic = arithmetic;
  }

  /**
   * `trainerScores` gives the log-probs of all tokens of each prompt but its first, after the same update. An adapter
   * leaves the checksum of the weights as it was.
   */
  async check(
    servers: readonly { readonly name: string; readonly server: Attested }[],
    trainerScores: (prompts: readonly Int32Array[]) => Promise<readonly Float32Array[]>,
    sent: 'weights' | 'adapter' = 'weights',
  ): Promise<Verdict[]> {
    const now = joined(await trainerScores(this.#prompts));
    const moved = this.#before?.some((value, at) => value !== now[at]) ?? false;
    this.#before = now;
    return Promise.all(
      servers.map(async ({ name, server }): Promise<Verdict> => {
        try {
          const { arithmetic } = await server.info();
          const isSame = arithmetic !== undefined && arithmetic === this.#arithmetic;
          const verdict = this.judge(name, joined(await this.#scores(server)), now, isSame);
          if (sent === 'adapter') return verdict;
          const { changed, kept } = await this.#checksums.compare(name, server);
          if (verdict.tookPart) return { ...verdict, why: `${verdict.why}; ${stayedBehind(kept)}` };
          if (verdict.state === 'failed' || changed !== false || !moved) return verdict;
          return { ...verdict, state: 'failed', why: 'the checksum of its weights is the one it had before' };
        } catch (error) {
          const why = `canary prompts could not be scored: ${(error as Error).message}`;
          return { name, state: 'unreachable', distance: Number.NaN, why };
        }
      }),
    );
  }

  judge(name: string, server: Float32Array, now: Float32Array, sameArithmetic = false): Verdict {
    const distance = meanOf(server, (value, at) => Math.abs(value - now[at]!));
    if (sameArithmetic && !(distance <= SAME_ARITHMETIC)) {
      const why = `its log-probs are ${distance.toExponential(1)} off; ${SAME_ARITHMETIC} is allowed where the arithmetic is the trainer's`;
      return { name, state: 'failed', distance, why };
    }
    const known = this.#evidence.get(name);
    if (!known) {
      if (!(distance < OTHER_MODEL)) {
        return {
          name,
          state: 'failed',
          distance,
          why: `its log-probs are ${distance.toFixed(2)} off: another model`,
        };
      }
      const noise = meanOf(server, (value, at) => (value - now[at]!) ** 2);
      const first = { trainer: now, residual: noise };
      this.#evidence.set(name, { proved: now, sum: 0, moved: 0, noise, first });
      return { name, state: 'unproven', distance };
    }
    const { proved, first } = known;
    const old = meanOf(server, (value, at) => (value - proved[at]!) ** 2);
    const present = meanOf(server, (value, at) => (value - now[at]!) ** 2);
    known.noise = Math.min(Math.max(known.noise, 1e-14), Math.max(old, 1e-14), Math.max(present, 1e-14));
    const movedInAll = meanOf(now, (value, at) => (value - first.trainer[at]!) ** 2);
    const missing = Math.max(PART_MISSING * first.residual, SHARE_OF_MOVE * movedInAll, LEAST_MISSING);
    known.sum += (old - present) * now.length;
    const move = meanOf(now, (value, at) => (value - proved[at]!) ** 2);
    known.moved += move * now.length;
    const unclear = CLEAR * 2 * Math.sqrt(known.noise * known.moved);
    if (known.moved === 0 || Math.abs(known.sum) <= unclear) return { name, state: 'unproven', distance };
    if (known.sum > 0) {
      if (present > missing) {
        const why =
          `it took only part of the weights: its log-probs are ${distance.toExponential(1)} off, ` +
          `and were ${Math.sqrt(first.residual).toExponential(1)} off with the first`;
        return { name, state: 'failed', distance, why, tookPart: true };
      }
      this.#evidence.set(name, { proved: now, sum: 0, moved: 0, noise: known.noise, first });
      return { name, state: 'proved', distance };
    }
    if (move < LITTLE_MOVE * first.residual && present < ABOVE_NOISE * first.residual)
      return { name, state: 'unproven', distance };
    return { name, state: 'failed', distance, why: 'it still has the weights of an older version' };
  }

  async #scores(server: Pick<InferenceServer, 'generate'>): Promise<Float32Array[]> {
    const call = ++this.#call;
    return Promise.all(
      this.#prompts.map(async (prompt, at) => {
        const id = `attest/${call}/${at}/`;
        const { promptLogprobs } = await server.generate({
          id,
          trajectory: id,
          prompt,
          scorePrompt: true,
          sampling: {
            ...PLAIN_SAMPLING,
            maxTokens: 1,
            stopIds: [],
            seed: 0,
          },
        });
        if (!promptLogprobs) throw new Error('the server does not score prompts');
        return promptLogprobs.subarray(1);
      }),
    );
  }
}

function joined(parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]));
}

function meanOf(values: Float32Array, of: (value: number, at: number) => number): number {
  return values.reduce((sum, value, at) => sum + of(value, at), 0) / values.length;
}

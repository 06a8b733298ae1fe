/**
 * Whether servers really have the weights they were sent. Canary prompts are scored on each and compared with the
 * trainer's log-probs at this version (n) and at the last one proved on that server (o). With s = the server's,
 *
 *   E = Σ (s − o)² − (s − n)²     is  +Σ (n − o)²  on a server that has n, and  −Σ (n − o)²  on one that still has o,
 *
 * each ± 2σ √Σ(n − o)² by the noise σ of an engine's arithmetic. E is summed over syncs until it stands clear of the
 * noise; before that a server is unproven, which is no failure. A server that declares the trainer's arithmetic must
 * agree at once; a server that offers a checksum of its weights must show another one when they have moved.
 */
import type { InferenceServer } from '../inference/server.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';

export interface Verdict {
  readonly name: string;
  /** `unreachable`: it could not be asked, which says nothing of its weights. */
  readonly state: 'proved' | 'unproven' | 'failed' | 'unreachable';
  /** Mean distance of its log-probs from the trainer's. */
  readonly distance: number;
  readonly why?: string;
}

/** Standard deviations of noise that evidence must exceed. */
const CLEAR = 5;
/** Mean distance at the first look that no arithmetic explains: another model. */
const OTHER_MODEL = 0.5;
/** Mean distance where server and trainer declare the same arithmetic. */
const SAME_ARITHMETIC = 1e-4;

interface Evidence {
  /** The trainer's log-probs at the last version proved here. */
  proved: Float32Array;
  sum: number;
  moved: number;
  /** The least squared residual per token seen: the engine's noise. */
  noise: number;
}

type Attested = Pick<InferenceServer, 'generate' | 'info' | 'checksum'>;

export class Attestor {
  readonly #prompts: readonly Int32Array[];
  readonly #arithmetic: string | undefined;
  readonly #evidence = new Map<string, Evidence>();
  readonly #checksums = new Map<string, string>();
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
          if (verdict.state === 'failed' || sent === 'adapter') return verdict;
          const changed = await this.#checksumChanged(name, server);
          if (changed !== false || !moved) return verdict;
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
      this.#evidence.set(name, { proved: now, sum: 0, moved: 0, noise });
      return { name, state: 'unproven', distance };
    }
    const { proved } = known;
    const old = meanOf(server, (value, at) => (value - proved[at]!) ** 2);
    const present = meanOf(server, (value, at) => (value - now[at]!) ** 2);
    known.noise = Math.min(Math.max(known.noise, 1e-14), Math.max(old, 1e-14), Math.max(present, 1e-14));
    known.sum += (old - present) * now.length;
    known.moved += meanOf(now, (value, at) => (value - proved[at]!) ** 2) * now.length;
    const unclear = CLEAR * 2 * Math.sqrt(known.noise * known.moved);
    if (known.moved === 0 || Math.abs(known.sum) <= unclear) return { name, state: 'unproven', distance };
    if (known.sum > 0) {
      this.#evidence.set(name, { proved: now, sum: 0, moved: 0, noise: known.noise });
      return { name, state: 'proved', distance };
    }
    return { name, state: 'failed', distance, why: 'it still has the weights of an older version' };
  }

  /** Undefined where the server offers none, or did not before. */
  async #checksumChanged(name: string, server: Attested): Promise<boolean | undefined> {
    const checksum = await server.checksum?.();
    if (checksum === undefined) return undefined;
    const before = this.#checksums.get(name);
    this.#checksums.set(name, checksum);
    return before === undefined ? undefined : before !== checksum;
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

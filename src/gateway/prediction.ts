import type { GenerateRequest } from '../inference/server.ts';

/** Groups whose lengths are remembered; far more than run at once. */
const REMEMBERED_GROUPS = 10_000;

/**
 * How many tokens a trajectory will still sample. The best guess is the longest sibling that has ended, since a
 * short guess is the costlier mistake (Seer). Without one, the mean of all that have ended. A trajectory that has
 * outgrown its guess is taken for one of the tail, half as long again as it is.
 */
export class LengthPrediction {
  readonly #longest = new Map<string, number>();
  #ended = 0;
  #mean = 0;

  /** A trajectory of the group has ended. */
  learn(group: string, sampledTokens: number): void {
    this.#ended++;
    this.#mean += (sampledTokens - this.#mean) / this.#ended;
    const longest = Math.max(sampledTokens, this.#longest.get(group) ?? 0);
    this.#longest.delete(group);
    this.#longest.set(group, longest);
    if (this.#longest.size > REMEMBERED_GROUPS) this.#longest.delete(this.#longest.keys().next().value!);
  }

  knows(group: string): boolean {
    return this.#longest.has(group);
  }

  left(group: string, sampledTokens: number): number {
    const guess = this.#longest.get(group) ?? this.#mean;
    return guess > sampledTokens ? guess - sampledTokens : sampledTokens / 2;
  }
}

/** All attempts at a task in a step; a request from outside a run is alone. */
export function groupOf({ place, trajectory }: Pick<GenerateRequest, 'place' | 'trajectory'>): string {
  return place ? `${place.step}/${place.task}` : trajectory;
}

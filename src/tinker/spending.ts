/** Tokens that a service was asked to compute, and what they cost. */

/** In your currency, per million tokens. */
export interface Prices {
  /** Tokens of prompts that are sampled from or scored. */
  readonly prompt: number;
  readonly sampled: number;
  /** Tokens of sequences in a forward, or in a forward and backward. */
  readonly trained: number;
}

export interface Spent {
  readonly promptTokens: number;
  readonly sampledTokens: number;
  /** Scored without a gradient. */
  readonly forwardTokens: number;
  readonly trainedTokens: number;
}

export class Spending {
  readonly #prices: Prices | undefined;
  readonly #spent = { promptTokens: 0, sampledTokens: 0, forwardTokens: 0, trainedTokens: 0 };

  constructor(prices: Prices | undefined) {
    this.#prices = prices;
  }

  add(kind: keyof Spent, tokens: number): void {
    this.#spent[kind] += tokens;
  }

  /** Totals since the start of this process, by the names of metrics. */
  metrics(): Record<string, number> {
    const { promptTokens, sampledTokens, forwardTokens, trainedTokens } = this.#spent;
    const prices = this.#prices;
    return {
      'service/prompt_tokens': promptTokens,
      'service/sampled_tokens': sampledTokens,
      'service/forward_tokens': forwardTokens,
      'service/trained_tokens': trainedTokens,
      ...(prices && {
        'service/cost':
          (promptTokens * prices.prompt +
            sampledTokens * prices.sampled +
            (forwardTokens + trainedTokens) * prices.trained) /
          1e6,
      }),
    };
  }
}

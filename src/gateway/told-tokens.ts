/**
 * Tokens of a request that its listener has heard already. Once there are some, the request cannot be tried again from its
 * beginning: the listener would hear them twice. They are given back as a reply that was cut, and the rest is asked for after them.
 */
import type { GenerateRequest, GenerateResult, VersionSpan } from '../inference/server.ts';

export class ToldTokens {
  readonly #ids: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #versions: VersionSpan[] = [];

  /** The request, listened to; `version` says which weights the server has at this moment. */
  listen(request: GenerateRequest, version: () => number): GenerateRequest {
    const { onTokens } = request;
    if (!onTokens) return request;
    return {
      ...request,
      onTokens: (ids, logprobs) => {
        const now = version();
        if (this.#versions.at(-1)?.version !== now)
          this.#versions.push({ from: this.#ids.length, version: now });
        this.#ids.push(...ids);
        this.#logprobs.push(...logprobs);
        onTokens(ids, logprobs);
      },
    };
  }

  /** What was told, as a partial reply; undefined if nothing was. */
  partial({ prompt }: GenerateRequest): GenerateResult | undefined {
    if (this.#ids.length === 0) return undefined;
    return {
      ids: Int32Array.from(this.#ids),
      logprobs: Float32Array.from(this.#logprobs),
      finish: 'abort',
      versions: this.#versions,
      promptTokens: prompt.length,
    };
  }
}

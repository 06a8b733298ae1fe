/** A model small enough for two files: one row of logits for each token that may stand before. */
export class Bigram {
  readonly vocabulary: number;
  readonly logits: Float64Array;

  constructor(vocabulary: number) {
    this.vocabulary = vocabulary;
    this.logits = Float64Array.from({ length: vocabulary ** 2 }, (_, at) => Math.sin(at));
  }

  /** log π of every token after `previous`. */
  logprobs(previous: number, temperature = 1): Float64Array {
    const row = this.logits.subarray(previous * this.vocabulary, (previous + 1) * this.vocabulary);
    const scaled = row.map((logit) => logit / temperature);
    const top = scaled.reduce((one, other) => Math.max(one, other));
    const total = scaled.reduce((sum, logit) => sum + Math.exp(logit - top), 0);
    return scaled.map((logit) => logit - top - Math.log(total));
  }
}

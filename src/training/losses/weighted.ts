import { createOutput, type LossInput, type LossOutput } from './loss.ts';

/**
 * A loss of the form −c·A·log π with a coefficient c that carries no gradient: a clipped token still teaches, or is
 * dropped, but is never stuck at the edge of a clip.
 */
export function weighted(
  input: LossInput,
  coefficientOf: (t: number, output: LossOutput) => number,
): LossOutput {
  const output = createOutput(input);
  for (let t = 0; t < input.logprobs.length; t++) {
    const gradient = -coefficientOf(t, output) * input.advantages[t]!;
    output.gradient[t] = gradient;
    output.loss[t] = gradient * input.logprobs[t]!;
  }
  return output;
}

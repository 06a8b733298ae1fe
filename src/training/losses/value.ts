import { clamp } from './ratio.ts';

/**
 * PPO's clipped value loss: the worse of the free and the clipped error.
 *   L = ½·max((v − R)², (clip(v, v_old ± clip) − R)²)
 */
export function valueLoss(
  input: { readonly values: Float64Array; readonly old: Float64Array; readonly returns: Float64Array },
  { clip }: { readonly clip: number },
): { loss: Float64Array; gradient: Float64Array; clipped: Uint8Array } {
  const { values, old, returns } = input;
  const loss = new Float64Array(values.length);
  const gradient = new Float64Array(values.length);
  const clipped = new Uint8Array(values.length);
  for (let t = 0; t < values.length; t++) {
    const error = values[t]! - returns[t]!;
    const bounded = clip > 0 ? clamp(values[t]!, old[t]! - clip, old[t]! + clip) : values[t]!;
    const boundedError = bounded - returns[t]!;
    const isClipped = boundedError ** 2 > error ** 2;
    loss[t] = 0.5 * Math.max(error ** 2, boundedError ** 2);
    gradient[t] = isClipped ? 0 : error;
    clipped[t] = isClipped ? 1 : 0;
  }
  return { loss, gradient, clipped };
}

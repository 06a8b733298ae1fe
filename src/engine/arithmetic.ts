/** How weights that are not trained are held; products and sums are float32 either way. */
export type HeldAs = 'float32' | 'bfloat16';

/** Trainer and servers of the embedded engine compute with the same kernels, from weights that were rounded alike. */
export const arithmeticOf = (weights: HeldAs = 'float32') =>
  weights === 'float32' ? 'rollcall f32' : 'rollcall f32, weights in bf16';

/** How weights are held in an arithmetic of this engine. */
export const heldIn = (arithmetic: string | undefined): HeldAs =>
  arithmetic === arithmeticOf('bfloat16') ? 'bfloat16' : 'float32';

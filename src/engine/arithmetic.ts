/** What matrices are multiplied in: with bfloat16 weights and inputs of a product are rounded, and sums are float32. */
export type HeldAs = 'float32' | 'bfloat16';

/** How a server holds linear layers: with `int8`, products are of whole numbers, and no trainer computes so. */
export type ServedAs = HeldAs | 'int8';

/** Keys and values are rounded to bfloat16 where weights are not float32: a server's cache holds them in half the bytes. */
export const roundsKeys = (weights: ServedAs = 'float32') => weights !== 'float32';

/** Trainer and servers of the embedded engine compute with the same kernels, from weights that were rounded alike. */
export const arithmeticOf = (weights: ServedAs = 'float32') =>
  ({ float32: 'rollcall f32', bfloat16: 'rollcall bf16', int8: 'rollcall int8' })[weights];

/** How weights are held in an arithmetic of this engine. */
export const heldIn = (arithmetic: string | undefined): HeldAs =>
  arithmetic === arithmeticOf('bfloat16') ? 'bfloat16' : 'float32';

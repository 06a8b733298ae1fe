/** Trainer and servers of the embedded engine compute with the same kernels in float32. */
export const ARITHMETIC = 'rollcall f32';

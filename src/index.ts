/** The public API, in the order in which data flows. */
export * as errors from './errors.ts';
export type * from './types.ts';

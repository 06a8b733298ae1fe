/** What the two threads of a fuzzer say to one another. */
export interface FuzzWork {
  readonly target: string;
  readonly seed: number;
  readonly seconds: number;
  /** Inputs of earlier work, beside the seeds. */
  readonly corpus: readonly Uint8Array[];
  /** What is being run, for the main thread: count of runs, length, bytes. */
  readonly shared: SharedArrayBuffer;
}

export type FuzzReport =
  | { readonly kind: 'finding'; readonly what: string; readonly where: string; readonly input: Uint8Array }
  | { readonly kind: 'kept'; readonly input: Uint8Array; readonly runs: number; readonly parts: number }
  | { readonly kind: 'ended'; readonly runs: number; readonly parts: number; readonly corpus: number };

export const SHARED_HEAD = 16;

/** One build of the C kernels, as its loader returns it. `KernelSet` makes the typed interface from it. */
export interface Backend {
  readonly kind: 'native' | 'wasm';
  readonly description: string;
  readonly threads: number;
  /** The first address a caller may use, and the first it never may. */
  readonly low: number;
  readonly maximumBytes: number;
  /** The ops' names; an op's number is its place here. */
  readonly opNames: readonly string[];
  /** Where an op's arguments are written and, from `DETAILS` on, its results are read. */
  readonly arguments: Float64Array;
  /** 0, or a code that says what was wrong. */
  run(op: number): number;
  /** Makes addresses below `end` usable; false where there is no more memory. */
  setHeap(end: number, workspace: number, workspaceBytes: number): boolean;
  /** A buffer, and the offset in it of the `bytes` bytes from `address` on. */
  locate(address: number, bytes: number): { readonly buffer: ArrayBufferLike; readonly offset: number };
  close(): Promise<void>;
}

/** Slots of `arguments`, as in native/context.h. */
export const DETAILS = 40;
/** Results of `run` that are not about an argument, as in native/context.h. */
export const NEEDS_WORKSPACE = -1;

/** Something that reads bytes from outside. */
export interface FuzzTarget {
  readonly name: string;
  /** Sound inputs, from which the others grow. */
  seeds(): readonly (string | Uint8Array)[];
  /** Words of the format, which chance would be slow to spell. */
  readonly words?: readonly string[];
  /** Reads one input. May throw what `isOurs` knows; anything else is a finding. */
  run(bytes: Buffer): unknown;
  /** Errors that are answers, beside those of src/errors.ts. */
  isOurs?(error: Error): boolean;
}

/** The states of images that requests show, computed once for a set of weights. */

import type { Kernels, Pointer } from '../kernels/kernels.ts';
import { Arena, ArenaScope } from '../training/arena.ts';
import { Tape } from '../training/tape.ts';
import type { PatchedImage, VisionEncoder } from '../vision/encoder.ts';

const KEPT_BYTES = 64 * 2 ** 20;

export class SeenImages {
  readonly #kernels: Kernels;
  readonly #arena: Arena;
  readonly #states = new Map<string, { readonly at: Pointer; readonly bytes: number }>();
  #bytes = 0;
  /** Images that went through the encoder, in all. */
  encoded = 0;

  constructor(kernels: Kernels) {
    this.#kernels = kernels;
    this.#arena = new Arena(kernels);
  }

  /** Where the states of each image are, [tokens, hidden] in reading order; valid until the next call. */
  look(encoder: VisionEncoder, images: ReadonlyMap<string, PatchedImage>): ReadonlyMap<string, Pointer> {
    const missing = [...images].filter(([blob]) => !this.#states.has(blob));
    if (missing.length > 0) this.#encode(encoder, missing);
    for (const blob of images.keys()) {
      const kept = this.#states.get(blob)!;
      this.#states.delete(blob); // the newest stand last
      this.#states.set(blob, kept);
    }
    for (const [blob, { at, bytes }] of this.#states) {
      if (this.#bytes <= KEPT_BYTES || images.has(blob)) break;
      this.#kernels.free(at);
      this.#states.delete(blob);
      this.#bytes -= bytes;
    }
    return new Map([...images.keys()].map((blob) => [blob, this.#states.get(blob)!.at]));
  }

  /** New weights see anew. */
  forget(): void {
    for (const { at } of this.#states.values()) this.#kernels.free(at);
    this.#states.clear();
    this.#bytes = 0;
  }

  close(): void {
    this.forget();
    this.#arena.close();
  }

  #encode(encoder: VisionEncoder, images: readonly (readonly [string, PatchedImage])[]): void {
    const kernels = this.#kernels;
    const scope = new ArenaScope(this.#arena);
    try {
      const tape = new Tape(kernels, scope, false);
      const { states, tokenAt } = encoder.forward(
        tape,
        images.map(([, image]) => image),
        false,
        () => {},
      );
      for (const [index, [blob]] of images.entries()) {
        const rows = tokenAt[index]!;
        const ids = scope.take(rows.length);
        kernels.i32(ids, rows.length).set(rows);
        const bytes = 4 * rows.length * states.columns;
        const at = kernels.alloc(bytes);
        const { columns: width } = states;
        kernels.gather({ table: states.at, rows: states.rows, width, ids, count: rows.length, out: at });
        this.#states.set(blob, { at, bytes });
        this.#bytes += bytes;
        this.encoded++;
      }
    } finally {
      scope.release();
    }
  }
}

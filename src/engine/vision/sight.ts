/** What a pass over packed rows with images needs beyond the rows: the images' states, and rotations by three positions. */

import type { ExpandedRow } from '../../lib/images/expand-rows.ts';
import { axisOfPair } from '../../lib/images/mrope.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import type { PackedTokens } from '../model/decoder.ts';
import type { Packing } from '../training/packing.ts';
import type { RopeTable, Tape } from '../training/tape.ts';
import type { PatchedImage, VisionEncoder } from './encoder.ts';

export function addSight(
  tape: Tape,
  encoder: VisionEncoder,
  config: ModelConfig,
  rows: readonly ExpandedRow[],
  packing: Packing,
  images: ReadonlyMap<string, PatchedImage>,
  options: { readonly recompute: boolean; readonly checkpoint: () => void },
): Pick<PackedTokens, 'rope' | 'positions' | 'sight'> {
  const { kernels } = tape;
  const { owners, positions } = packing;
  // Each image once, however many rows show it.
  const shown = [...new Set(rows.flatMap(({ pictures = [] }) => pictures.map(({ blob }) => blob)))];
  const number = new Map(shown.map((blob, index) => [blob, index]));
  const { states, tokenAt } = encoder.forward(
    tape,
    shown.map((blob) => images.get(blob)!),
    options.recompute,
    options.checkpoint,
  );
  const at: number[] = [];
  const from: number[] = [];
  for (let token = 0; token < owners.length; token++) {
    const position = positions[token]!;
    const picture = rows[owners[token]!]!.pictures?.find(
      ({ start, size }) => position >= start && position < start + size.width * size.height,
    );
    if (!picture) continue;
    at.push(token);
    from.push(tokenAt[number.get(picture.blob)!]![position - picture.start]!);
  }
  const indices = tape.take(Math.max(1, from.length));
  kernels.i32(indices, from.length).set(from);
  const count = tape.take(owners.length);
  kernels.i32(count, owners.length).set(owners.map((_, token) => token));
  return {
    positions: count,
    rope: mropeTable(tape, config, rows, packing),
    sight: { at: Int32Array.from(at), states: tape.select(states, indices, from.length) },
  };
}

/** A row of cosines and sines for each packed token. */
function mropeTable(
  tape: Tape,
  { headSize, ropeBase, vision }: ModelConfig,
  rows: readonly ExpandedRow[],
  { owners, positions }: Packing,
): RopeTable {
  const half = headSize / 2;
  const axis = axisOfPair(vision!.sections);
  const size = owners.length * half;
  const [cos, sin] = [tape.take(size), tape.take(size)];
  const [cosines, sines] = views(tape.kernels, cos, sin, size);
  for (let pair = 0; pair < half; pair++) {
    const frequency = ropeBase ** (-pair / half);
    for (let token = 0; token < owners.length; token++) {
      const { mrope } = rows[owners[token]!]!;
      const position = positions[token]!;
      const angle = (mrope ? mrope[3 * position + axis[pair]!]! : position) * frequency;
      cosines[token * half + pair] = Math.cos(angle);
      sines[token * half + pair] = Math.sin(angle);
    }
  }
  return { cos, sin, rows: owners.length };
}

const views = (kernels: Kernels, cos: number, sin: number, size: number) =>
  [kernels.f32(cos, size), kernels.f32(sin, size)] as const;

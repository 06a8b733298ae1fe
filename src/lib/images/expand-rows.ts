/**
 * Rows with one placeholder an image become rows with a place for each of its tokens, and outputs come back to the places
 * the caller knows. Rows without images stay the objects they are.
 */
import { TrainerError } from '../../errors.ts';
import type { ImageRef } from '../../types.ts';
import { mropePositions } from './mrope.ts';
import type { Size } from './processor.ts';

/** A trainer's row, and its numbers by output: an array a row. */
interface Row {
  readonly ids: Int32Array;
  readonly targets: Uint8Array;
  readonly prefix?: { readonly row: number; readonly length: number };
  readonly images?: readonly { readonly at: number; readonly image: ImageRef }[];
}
type Arrays = Readonly<Record<string, readonly Float32Array[] | undefined>>;

/** An image in an expanded row: its first token's position, its blob, its size in tokens. */
export interface Picture {
  readonly start: number;
  readonly blob: string;
  readonly size: Size;
}

export interface ExpandedRow extends Row {
  readonly pictures?: readonly Picture[];
  /** [length, 3] where the row has pictures. */
  readonly mrope?: Int32Array;
}

export interface ExpandedRows {
  readonly rows: readonly ExpandedRow[];
  /** Arrays of the expanded rows, at the positions of the given ones. */
  contract<A extends Arrays>(outputs: A): A;
  /** The opposite: zeros at the places of images. */
  spread<A extends Arrays>(gradients: A): A;
}

export function expandRows(
  given: readonly Row[],
  imageId: number,
  sizeOf: (blob: string) => Size,
): ExpandedRows {
  const places = given.map((row, index) => placesOf(row, index, imageId, sizeOf));
  const rows = given.map((row, index) => expandRow(row, places[index], sizeOf));
  const map = <A extends Arrays>(
    arrays: A,
    move: (array: Float32Array, at: Int32Array, row: number) => Float32Array,
  ) =>
    Object.fromEntries(
      Object.entries(arrays).map(([name, list]) => [
        name,
        list?.map((array, row) => (places[row] ? move(array, places[row], row) : array)),
      ]),
    ) as A;
  return {
    rows,
    contract: (outputs) => map(outputs, (array, at) => Float32Array.from(at, (place) => array[place]!)),
    spread: (gradients) =>
      map(gradients, (array, at, row) => {
        const wide = new Float32Array(rows[row]!.ids.length);
        for (const [index, place] of at.entries()) wide[place] = array[index] ?? 0;
        return wide;
      }),
  };
}

/** Where each of a row's ids goes; undefined for a row without images. */
function placesOf(
  { ids, targets, images = [] }: Row,
  index: number,
  imageId: number,
  sizeOf: (blob: string) => Size,
): Int32Array | undefined {
  if (images.length === 0) return undefined;
  const more = new Map<number, number>();
  let last = -1;
  for (const { at, image } of images) {
    const wrong = (what: string) => new TrainerError(`row ${index}: its image at ${at} ${what}`);
    if (!(Number.isInteger(at) && at > last && at < ids.length))
      throw wrong('does not follow the one before');
    if (ids[at] !== imageId) throw wrong(`stands on id ${ids[at]}; the placeholder is ${imageId}`);
    if (targets[at]) throw wrong('is a target; images are not predicted');
    const { width, height } = sizeOf(image.blob);
    more.set(at, width * height - 1);
    last = at;
  }
  let shift = 0;
  return ids.map((_, at) => {
    const place = at + shift;
    shift += more.get(at) ?? 0;
    return place;
  });
}

function expandRow(row: Row, places: Int32Array | undefined, sizeOf: (blob: string) => Size): ExpandedRow {
  if (!places) return row;
  const { ids, targets, images = [], prefix } = row;
  const pictures = images.map(({ at, image }) => ({
    start: places[at]!,
    blob: image.blob,
    size: sizeOf(image.blob),
  }));
  const end = (length: number) => {
    if (length < ids.length) return places[length]!;
    const after = ids.length - 1;
    const picture = pictures.find(({ start }) => start === places[after]);
    return places[after]! + (picture ? picture.size.width * picture.size.height : 1);
  };
  const length = end(ids.length);
  const wideIds = new Int32Array(length);
  const wideTargets = new Uint8Array(length);
  for (const [at, place] of places.entries()) {
    wideIds[place] = ids[at]!;
    wideTargets[place] = targets[at]!;
  }
  for (const { start, size } of pictures)
    wideIds.fill(wideIds[start]!, start, start + size.width * size.height);
  return {
    ids: wideIds,
    targets: wideTargets,
    ...(prefix ? { prefix: { row: prefix.row, length: end(prefix.length) } } : {}),
    pictures,
    mrope: mropePositions(length, pictures),
  };
}

import { createRandom } from '../lib/random.ts';
import type { ImageRef } from '../types.ts';
import type { Row } from './trainer.ts';

/**
 * How sequences are dealt to updates (mini-batches) and forward passes (micro-batches). The loss has divided by the
 * mini-batch's counts before, so no deal changes a gradient; a test holds that to 1e-6.
 */

interface Packable {
  readonly ids: Int32Array;
  readonly trained: Uint8Array;
  readonly images?: readonly { readonly at: number; readonly image: ImageRef }[];
}

export interface MicroBatch<T> {
  readonly members: readonly T[];
  readonly rows: readonly Row[];
}

export interface PackOptions<T> {
  readonly tokensPerMicroBatch: number;
  /** Even loads (true), or filled in order (false). */
  readonly balance: boolean;
  /** Sequences of one family begin alike (attempts at one task): compute that once, where the trainer can. */
  readonly familyOf?: (member: T) => number;
}

/** Shared beginnings shorter than this are not worth the bookkeeping. */
const SHORTEST_SHARED_PREFIX = 8;

/** Whole groups, as even in number as can be; fewer mini-batches where there are fewer groups. */
export function splitGroups(groups: readonly number[], count: number, shuffleSeed?: number): number[][] {
  const order = shuffleSeed === undefined ? groups : createRandom(shuffleSeed).shuffle(groups);
  const batches = Math.min(count, order.length);
  return Array.from({ length: batches }, (_, i) =>
    order.slice(Math.floor((i * order.length) / batches), Math.floor(((i + 1) * order.length) / batches)),
  );
}

export function packMicroBatches<T extends Packable>(
  members: readonly T[],
  options: PackOptions<T>,
): MicroBatch<T>[] {
  const blocks = options.familyOf
    ? familyBlocks(members, options.familyOf, options.tokensPerMicroBatch)
    : members.map((member, index) => ({ indices: [index], tokens: tokensOf(member) }));
  const deal = options.balance ? dealEvenly : dealInOrder;
  return deal(blocks, options.tokensPerMicroBatch).map((indices) => {
    const chosen = indices.toSorted((a, b) => a - b).map((index) => members[index]!);
    return { members: chosen, rows: rowsOf(chosen, options.familyOf) };
  });
}

interface Block {
  readonly indices: readonly number[];
  readonly tokens: number;
}

/** Longest first, each to the least loaded micro-batch that can take it. */
function dealEvenly(blocks: readonly Block[], budget: number): number[][] {
  const total = blocks.reduce((sum, block) => sum + block.tokens, 0);
  const bins = Array.from({ length: Math.ceil(total / budget) }, () => ({
    tokens: 0,
    indices: [] as number[],
  }));
  for (const block of blocks.toSorted((a, b) => b.tokens - a.tokens)) {
    let least = bins[0];
    for (const bin of bins) if (bin.tokens < least!.tokens) least = bin;
    if (!least || (least.tokens > 0 && least.tokens + block.tokens > budget)) {
      least = { tokens: 0, indices: [] };
      bins.push(least);
    }
    least.tokens += block.tokens;
    least.indices.push(...block.indices);
  }
  return bins.filter(({ indices }) => indices.length > 0).map(({ indices }) => indices);
}

function dealInOrder(blocks: readonly Block[], budget: number): number[][] {
  const bins: number[][] = [];
  let tokens = Number.POSITIVE_INFINITY;
  for (const block of blocks) {
    if (tokens + block.tokens > budget) {
      bins.push([]);
      tokens = 0;
    }
    bins.at(-1)!.push(...block.indices);
    tokens += block.tokens;
  }
  return bins;
}

/** Families stay together as long as they fit; their shared beginning is counted once. */
function familyBlocks<T extends Packable>(
  members: readonly T[],
  familyOf: (member: T) => number,
  budget: number,
): Block[] {
  const families = new Map<number, number[]>();
  for (const [index, member] of members.entries()) {
    const family = familyOf(member);
    families.set(family, [...(families.get(family) ?? []), index]);
  }
  const blocks: Block[] = [];
  for (const indices of families.values()) {
    let block: { indices: number[]; tokens: number } | undefined;
    for (const index of indices) {
      const member = members[index]!;
      const shared = block ? sharedLength(members[block.indices[0]!]!, member) : 0;
      if (block && block.tokens + tokensOf(member) - shared <= budget) {
        block.indices.push(index);
        block.tokens += tokensOf(member) - shared;
      } else {
        block = { indices: [index], tokens: tokensOf(member) };
        blocks.push(block);
      }
    }
  }
  return blocks;
}

function rowsOf<T extends Packable>(members: readonly T[], familyOf?: (member: T) => number): Row[] {
  const roots = new Map<number, number[]>(); // rows of a family that others may lean on: those that lean on none
  return members.map((member, row) => {
    const plain: Row = {
      ids: member.ids,
      targets: member.trained,
      ...(member.images?.length ? { images: member.images } : {}),
    };
    if (!familyOf) return plain;
    const family = familyOf(member);
    const ofFamily = roots.get(family) ?? [];
    roots.set(family, ofFamily);
    let best = { row: -1, length: 0 };
    for (const root of ofFamily) {
      const length = sharedLength(members[root]!, member);
      if (length > best.length) best = { row: root, length };
    }
    if (best.length >= SHORTEST_SHARED_PREFIX) return { ...plain, prefix: best };
    ofFamily.push(row);
    return plain;
  });
}

/** How many first tokens `member` can take from `root`: equal ids, and none of its own targets among them. */
function sharedLength(root: Packable, member: Packable): number {
  const firstTarget = member.trained.indexOf(1);
  const limit = Math.min(root.ids.length, firstTarget < 0 ? member.ids.length : firstTarget);
  let length = 0;
  while (length < limit && root.ids[length] === member.ids[length]) length++;
  const imagesOf = ({ images }: Packable) =>
    (images ?? []).filter(({ at }) => at < length).map(({ at, image }) => `${at}:${image.blob}`);
  return String(imagesOf(root)) === String(imagesOf(member)) ? length : 0;
}

function tokensOf({ ids, images }: Packable): number {
  return (images ?? []).reduce((sum, { image }) => sum + image.tokens - 1, ids.length);
}

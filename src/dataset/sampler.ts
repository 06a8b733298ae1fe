import { ConfigError, DatasetError } from '../errors.ts';
import { hashSeed } from '../lib/random.ts';
import type { Dataset } from './dataset.ts';

/** Which tasks come next. Its whole state is JSON and goes into the checkpoint. */
export interface Sampler<T> {
  /** The next places of the dataset; after the last one the next epoch begins. */
  next(count: number): number[];
  /** The task at a place of the dataset, with its row number. */
  at(place: number): Promise<{ readonly index: number; readonly task: T }>;
  /** What the attempts at tasks got. `index` is the row's number, `success` the mean over its attempts, 0 to 1. */
  update(results: readonly { readonly index: number; readonly success: number }[]): void;
  state(): SamplerState;
  restore(state: SamplerState): void;
}

export interface SamplerState {
  readonly kind: SamplerOptions['kind'];
  readonly epoch: number;
  /** Places of the epoch's order already handed out or passed over. */
  readonly position: number;
  /** Per row: number, smoothed success, epoch it was last measured in. */
  readonly rates: readonly (readonly [index: number, success: number, epoch: number])[];
  /** Rates when the epoch began, which its order was made of; absent where the order does not depend on them. */
  readonly ranked?: readonly (readonly [index: number, success: number])[];
}

/** The order in which tasks are taken. */
export type SamplerOptions =
  /** Every epoch in a new random order. */
  | { readonly kind: 'shuffle' }
  /** The dataset's own order, again and again. */
  | { readonly kind: 'sequential' }
  /** By a column of numbers, small first; equal ones in a random order. */
  | { readonly kind: 'difficulty'; readonly column: string; readonly hardFirst?: boolean }
  /** The first epoch in random order; each later one by the success measured so far, easy first. */
  | { readonly kind: 'easy-to-hard' }
  /** Skips tasks whose measured success is outside the bounds, and measures them again after some epochs. */
  | { readonly kind: 'zone'; readonly low: number; readonly high: number; readonly recheckEpochs?: number };

/** A new measurement counts this much: the policy moves, and old success says little about it. */
const SMOOTHING = 0.5;
const RECHECK_EPOCHS = 4;

export async function createSampler<T>(
  dataset: Dataset<T>,
  options: SamplerOptions,
  seed: number,
): Promise<Sampler<T>> {
  if (dataset.length === 0) throw new DatasetError(`${dataset.name}: has no rows to sample`);
  if (options.kind === 'zone' && !(options.low >= 0 && options.low <= options.high && options.high <= 1)) {
    throw new ConfigError(
      `sampler: the zone from ${options.low} to ${options.high} is none; use 0 <= low <= high <= 1`,
    );
  }
  const difficulty =
    options.kind === 'difficulty' ? await readDifficulty(dataset, options.column) : undefined;
  return samplerOver(dataset, options, seed, difficulty);
}

function samplerOver<T>(
  dataset: Dataset<T>,
  options: SamplerOptions,
  seed: number,
  difficulty: Float64Array | undefined,
): Sampler<T> {
  let epoch = 0;
  let position = 0;
  let rates = new Map<number, { success: number; epoch: number }>();
  let ranked: Map<number, number> | undefined;
  let order = orderOf();

  function orderOf(): Int32Array {
    if (options.kind === 'sequential')
      return Int32Array.from({ length: dataset.length }, (_, place) => place);
    const shuffled = dataset.permutation(hashSeed(seed, 'epoch', epoch));
    if (options.kind === 'difficulty') {
      const sign = options.hardFirst ? -1 : 1;
      return sortBy(shuffled, (place) => sign * difficulty![place]!);
    }
    if (options.kind === 'easy-to-hard' && ranked) {
      const before = ranked;
      return sortBy(shuffled, (place) => -(before.get(dataset.indexAt(place)) ?? 0.5));
    }
    return shuffled;
  }

  function nextEpoch(): void {
    epoch++;
    position = 0;
    if (options.kind === 'easy-to-hard')
      ranked = new Map([...rates].map(([index, { success }]) => [index, success]));
    order = orderOf();
  }

  function isWanted(place: number): boolean {
    if (options.kind !== 'zone') return true;
    const rate = rates.get(dataset.indexAt(place));
    if (!rate) return true;
    const stale = epoch - rate.epoch >= (options.recheckEpochs ?? RECHECK_EPOCHS);
    return stale || (rate.success >= options.low && rate.success <= options.high);
  }

  return {
    next: (count) => {
      const places: number[] = [];
      let passed = 0;
      while (places.length < count) {
        if (position === order.length) nextEpoch();
        const place = order[position++]!;
        // A whole epoch without a wanted task: take what comes rather than stall.
        if (isWanted(place) || passed >= order.length) places.push(place);
        else passed++;
      }
      return places;
    },
    at: async (place) => ({ index: dataset.indexAt(place), task: await dataset.at(place) }),
    update: (results) => {
      for (const { index, success } of results) {
        const before = rates.get(index)?.success;
        const smoothed = before === undefined ? success : before + SMOOTHING * (success - before);
        rates.set(index, { success: smoothed, epoch });
      }
    },
    state: () => ({
      kind: options.kind,
      epoch,
      position,
      rates: [...rates].map(([index, rate]) => [index, rate.success, rate.epoch] as const),
      ...(ranked && { ranked: [...ranked] }),
    }),
    restore: (state) => {
      if (state.kind !== options.kind) {
        throw new ConfigError(
          `sampler: the checkpoint was written with ${state.kind}, the options say ${options.kind}; resume with ${state.kind}`,
        );
      }
      ({ epoch, position } = state);
      rates = new Map(state.rates.map(([index, success, measured]) => [index, { success, epoch: measured }]));
      ranked = state.ranked && new Map(state.ranked);
      order = orderOf();
    },
  };
}

/** Stable: equal keys keep the order they come in. */
function sortBy(places: Int32Array, key: (place: number) => number): Int32Array {
  const keys = new Map(Array.from(places, (place) => [place, key(place)]));
  return Int32Array.from([...places].sort((one, other) => keys.get(one)! - keys.get(other)!));
}

async function readDifficulty<T>(dataset: Dataset<T>, column: string): Promise<Float64Array> {
  const values = new Float64Array(dataset.length);
  for await (const { row, index, next } of dataset.rows()) {
    const found = column
      .split('.')
      .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined | null)?.[name], row);
    const number = typeof found === 'string' && found.trim() !== '' ? Number(found) : found;
    if (typeof number !== 'number' || !Number.isFinite(number)) {
      throw new DatasetError(
        `${dataset.name}, row ${index}, column ${column}: is ${JSON.stringify(found) ?? 'missing'}; sampling by difficulty needs a number`,
      );
    }
    values[next - 1] = number;
  }
  return values;
}

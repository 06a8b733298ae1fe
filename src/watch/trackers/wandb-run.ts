import { randomBytes } from 'node:crypto';
import type { TrackedLine } from '../tracker.ts';

/** A run as W&B names it. */
export interface WandbRun {
  readonly project: string;
  /** Display name of the run. */
  readonly experiment: string;
  /** User or team; the key's own default without it. */
  readonly entity?: string | undefined;
  readonly group?: string | undefined;
  readonly notes?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly id?: string | undefined;
}

/** Eight characters, as W&B makes its own. */
export const newRunId = (): string =>
  [...randomBytes(8)].map((byte) => 'abcdefghijklmnopqrstuvwxyz0123456789'[byte % 36]).join('');

/** JSON with NaN and Infinity bare, as W&B's own client writes them. */
export const wandbJson = (row: Readonly<Record<string, number>>): string =>
  `{${Object.entries(row)
    .map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    .join(',')}}`;

/** One row of a run's history. */
export const wandbRow = ({ step, seconds, time, metrics }: TrackedLine): Record<string, number> => ({
  ...metrics,
  _step: step,
  _runtime: seconds,
  _timestamp: time / 1000,
});

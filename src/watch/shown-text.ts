import type { Trajectory } from '../types.ts';

/** Lines wait in a tracker's queue, so a text has its bound; its end, where the answer is, stays. */
const LONGEST = 20_000;

/** A trajectory as its tokens read, prompt and replies with their marks; undefined where none was sampled. */
export function trajectoryText(
  trajectory: { readonly segments: readonly Pick<Trajectory['segments'][number], 'ids'>[] } | undefined,
  decode: (ids: Int32Array) => string,
): string | undefined {
  if (!trajectory || trajectory.segments.length === 0) return undefined;
  const text = trajectory.segments.map(({ ids }) => decode(ids)).join('\n\n');
  return text.length > LONGEST ? `…${text.slice(1 - LONGEST)}` : text;
}

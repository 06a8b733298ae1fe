import type { ServerInfo } from './server.ts';

/** What a user should know of a server before a run; a line each. `tested` are the engine's versions that were tried. */
export function noticesOf(
  url: string,
  { engine, release, can }: Pick<ServerInfo, 'engine' | 'release' | 'can'>,
  tested: readonly string[] | undefined,
): string[] {
  if (!tested) return [];
  const notices: string[] = [];
  if (release === undefined || !tested.includes(release.split('+')[0]!)) {
    notices.push(
      `${url} is ${engine} ${release ?? 'of an unknown version'}, which was not tried with this Rollcall; ${tested.join(' and ')} were`,
    );
  }
  if (!can.has('seeds')) {
    notices.push(
      `${url} ignores seeds, so the run cannot be repeated exactly; SGLang obeys them with --enable-deterministic-inference`,
    );
  }
  return notices;
}

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
      `replies of ${url} do not depend on seeds, so the run cannot be repeated exactly; that needs servers.seeds, and with SGLang --enable-deterministic-inference`,
    );
  }
  return notices;
}

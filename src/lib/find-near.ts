import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * Where a path in a file leads: from the file's folder, or, where nothing is there, from the working directory, as
 * verl resolves all paths. Where neither exists, the path from the folder.
 */
export function findNear(
  path: string,
  folder: string,
  exists: (path: string) => boolean = existsSync,
): string {
  const near = resolve(folder, path);
  const working = resolve(path);
  return !exists(near) && exists(working) ? working : near;
}

/** For errors: the places that were looked at. */
export function placesLookedAt(path: string, folder: string): string {
  const places = [...new Set([resolve(folder, path), resolve(path)])];
  return places.join(' nor ');
}

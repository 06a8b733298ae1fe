import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A file of bin/: two folders above this file in the source, three above it in dist/. */
export function ownProgram(name: string): string {
  const near = new URL(`../../bin/${name}`, import.meta.url);
  return fileURLToPath(existsSync(near) ? near : new URL(`../../../bin/${name}`, import.meta.url));
}

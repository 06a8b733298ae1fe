import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function find(): string {
  // From source this file is src/engine/kernels/, from a build dist/src/engine/kernels/.
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const candidate = join(at, 'native');
    if (existsSync(join(candidate, 'kernels.c'))) return candidate;
    if (at === dirname(at)) throw new Error('the folder native/ of the package is missing');
  }
}

/** The folder of the C sources and of kernels.wasm. */
export const nativeDirectory = find();

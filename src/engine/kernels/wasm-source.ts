import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { nativeDirectory } from './native-directory.ts';

/** The custom section of kernels.wasm that holds the hash of what it was built from. */
export const SOURCE_SECTION = 'rollcall-source';

/** Flags of `npm run build:wasm`; part of the hash. */
export const WASM_FLAGS = [
  '--target=wasm32',
  '-std=gnu11',
  '-O3',
  '-ffreestanding',
  '-nostdlib',
  '-msimd128',
  '-matomics',
  '-mbulk-memory',
  '-mmutable-globals',
  '-fno-math-errno',
  '-fno-trapping-math',
  '-fno-delete-null-pointer-checks',
  '-Wl,--no-entry,--import-memory,--shared-memory,--max-memory=4294967296',
  '-Wl,--stack-first,-z,stack-size=262144,--export=__stack_pointer,--strip-all',
];

export function hashWasmSource(): string {
  const hash = createHash('sha256');
  const names = readdirSync(nativeDirectory).filter((name) => /\.[ch]$/.test(name) && name !== 'addon.c');
  for (const name of names.sort()) {
    // By lines, so that a checkout with other line ends is the same source.
    const text = readFileSync(join(nativeDirectory, name), 'utf8').replaceAll('\r\n', '\n');
    hash.update(`${name}\u0000${text}\u0000`);
  }
  return hash.update(WASM_FLAGS.join(' ')).digest('hex');
}

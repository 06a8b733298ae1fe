// Builds native/kernels.wasm with clang and wasm-ld (Debian: apt-get install clang lld). Only who changes the C sources
// needs this: the result is committed, with the hash of its sources in a custom section.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nativeDirectory } from '../src/engine/kernels/native-directory.ts';
import { hashWasmSource, SOURCE_SECTION, WASM_FLAGS } from '../src/engine/kernels/wasm-source.ts';

const out = join(nativeDirectory, 'kernels.wasm');
const clang = process.env['CLANG'] ?? 'clang';
execFileSync(clang, [...WASM_FLAGS, join(nativeDirectory, 'wasm.c'), '-o', out], { stdio: 'inherit' });

// A custom section: id 0, its length, its name's length and name, its bytes. All lengths are below 128: one byte each.
const name = Buffer.from(SOURCE_SECTION);
const hash = Buffer.from(hashWasmSource());
const section = [Buffer.from([0, 1 + name.length + hash.length, name.length]), name, hash];
const wasm = Buffer.concat([readFileSync(out), ...section]);
writeFileSync(out, wasm);
process.stdout.write(`${out}: ${wasm.length} bytes\n`);

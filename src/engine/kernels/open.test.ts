import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { nativeDirectory } from './native-directory.ts';
import { openKernels } from './open.ts';
import { expectClose, randomFloats, Tensors } from './testing/tensors.ts';
import { hashWasmSource, SOURCE_SECTION } from './wasm-source.ts';

const folder = mkdtempSync(join(tmpdir(), 'rollcall-kernels-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const root = fileURLToPath(new URL('../../../', import.meta.url));
const program = `
  const { openKernels } = await import('./src/engine/kernels/open.ts');
  const kernels = await openKernels({ threads: 2 });
  console.log(kernels.kind);
  await kernels.close();
`;
const start = (env: Record<string, string>) =>
  promisify(execFile)(
    process.execPath,
    ['--import', './bin/register.js', '--input-type=module', '-e', program],
    {
      cwd: root,
      env: { ...process.env, ROLLCALL_KERNELS: '', ...env },
      timeout: 60_000,
    },
  );

test('kernels.wasm was built from the sources that lie beside it (npm run build:wasm)', () => {
  const module = new WebAssembly.Module(readFileSync(join(nativeDirectory, 'kernels.wasm')));
  const [section] = WebAssembly.Module.customSections(module, SOURCE_SECTION);
  expect(Buffer.from(section!).toString()).toBe(hashWasmSource());
});

test('parallel first starts compile once, into the cache folder, and say so in one line', async () => {
  // A compiler that counts its runs, and is quick: what it compiles is what the real one does at -O0.
  const counter = join(folder, 'runs');
  const compiler = join(folder, 'counting-cc');
  writeFileSync(compiler, `#!/bin/sh\n[ "$1" = --version ] || echo run >> ${counter}\nexec cc "$@" -O0\n`);
  chmodSync(compiler, 0o755);
  const env = { XDG_CACHE_HOME: join(folder, 'cache'), CC: compiler };
  const starts = await Promise.all([start(env), start(env), start(env)]);
  expect(starts.map(({ stdout }) => stdout.trim())).toEqual(['native', 'native', 'native']);
  expect(readFileSync(counter, 'utf8').trim().split('\n')).toEqual(['run']);
  const lines = starts.flatMap(({ stderr }) => stderr.trim().split('\n').filter(Boolean));
  expect(lines).toEqual([expect.stringMatching(/^rollcall: compiled the native kernels in [\d.]+ s/)]);
  expect(readdirSync(join(folder, 'cache', 'rollcall'))).toEqual([
    expect.stringMatching(/^kernels-\w+\.node$/),
  ]);
});

test('without a compiler the wasm kernels serve, and one line says why; forced native is an error', async () => {
  const env = { XDG_CACHE_HOME: join(folder, 'empty'), CC: '/nowhere/cc' };
  const { stdout, stderr } = await start(env);
  expect(stdout.trim()).toBe('wasm');
  expect(stderr.trim()).toBe(
    'rollcall: using the wasm kernels, which are slower: no C compiler (tried /nowhere/cc)',
  );
  await expect(start({ ...env, ROLLCALL_KERNELS: 'native' })).rejects.toThrow(
    /no native kernels: no C compiler/,
  );
  await expect(start({ ROLLCALL_KERNELS: 'gpu' })).rejects.toThrow(/it can be "native" or "wasm"/);
});

test('instances with different builds and threads agree, and share nothing', async () => {
  const [m, n, k] = [33, 70, 300];
  const [x, w] = [randomFloats(m * k, 1), randomFloats(n * k, 2)];
  const results: number[][] = [];
  const bits: string[] = [];
  const opened = await Promise.all(
    (
      [
        ['native', 1],
        ['native', 3],
        ['wasm', 1],
        ['wasm', 3],
      ] as const
    ).map(([kind, threads]) => openKernels({ kind, threads, log: () => {} })),
  );
  for (const kernels of opened) {
    const tensors = new Tensors(kernels);
    const packed = tensors.bytes(kernels.packedBytes(n, k));
    kernels.pack({ weight: tensors.floats(w), n, k, packed });
    const y = tensors.blank(m * n);
    kernels.matmul({ x: tensors.floats(x), packed, y, m, n, k });
    kernels.siluMultiply({ gate: y, up: y, out: y, rows: m, width: n });
    results.push(tensors.read(y, m * n));
    bits.push(tensors.bits(y, m * n).toString('base64'));
  }
  expectClose(results[2]!, results[0]!, 1e-5);
  expect(bits[1]).toBe(bits[0]); // the thread count changes nothing
  expect(bits[3]).toBe(bits[2]);
  await Promise.all(opened.map((kernels) => kernels.close()));
  expect(() => opened[0]!.alloc(4)).toThrow('closed');
});

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

test.each(['native', 'wasm'])(
  'thousands of wild calls of the %s kernels crash nothing and stay inside the heap',
  async (kind) => {
    const args = [
      '--import',
      here('../../../bin/register.js'),
      here('./testing/fuzz-process.ts'),
      kind,
      '7',
      '6000',
    ];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 25_000 });
    const { accepted, refused, never, touched } = JSON.parse(stdout);
    expect(touched).toBe(-1);
    expect(never).toEqual([]);
    expect(accepted).toBeGreaterThan(1000);
    expect(refused).toBeGreaterThan(1000);
  },
);

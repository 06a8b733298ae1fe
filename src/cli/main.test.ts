import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { main } from './main.ts';

test('a word that every object has is an unknown command like any other', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    await main(['toString']);
    expect(said.mock.calls.join('')).toBe("error: unknown command 'toString'\n");
    expect(process.exitCode).toBe(1);
  } finally {
    said.mockRestore();
    process.exitCode = undefined;
  }
}, 60_000);

test('--version needs nothing but the package file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-version-'));
  for (const file of ['bin/rollcall.js', 'package.json'])
    cpSync(file, join(folder, file), { recursive: true });
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, 'bin/rollcall.js'), '--version'], {
    encoding: 'utf8',
  });
  rmSync(folder, { recursive: true });
  expect([stdout, stderr]).toEqual(['0.1.0\n', '']);
});

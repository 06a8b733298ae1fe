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

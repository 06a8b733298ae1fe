import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { claimSettings } from '../scripts/laptop/settings.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-settings-'));
});
afterAll(() => rm(folder, { recursive: true }));

test('the same settings go on with what is there; others are refused with the option and both values', async () => {
  const file = join(folder, 'settings.json');
  await claimSettings(file, { model: '/a', minutes: 22 });
  await claimSettings(file, { model: '/a', minutes: 22 });
  await expect(claimSettings(file, { model: '/a', minutes: 4 })).rejects.toThrow(
    /--minutes is 4, .* are of 22: give that, or another --runs/,
  );
  await expect(claimSettings(file, { model: '/b', minutes: 22 })).rejects.toThrow(
    /--model is "\/b", .*"\/a"/,
  );
});

test('a file that is cut off is no file of other settings', async () => {
  const file = join(folder, 'cut.json');
  await writeFile(file, '{"model":');
  await expect(claimSettings(file, { model: '/a' })).rejects.toThrow(SyntaxError);
});

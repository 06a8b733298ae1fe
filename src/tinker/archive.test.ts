import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { adapterFiles } from './archive.ts';

test('an adapter is read from a folder of the server, and one that is not seen here is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-adapter-'));
  try {
    await mkdir(join(folder, 'adapter'));
    await writeFile(join(folder, 'adapter', 'adapter_config.json'), '{"r":4,"target_modules":["q_proj"]}');
    await writeFile(join(folder, 'adapter', 'adapter_model.safetensors'), 'weights');
    const files = adapterFiles({ folder });
    expect([...files.keys()]).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    expect(Buffer.from(files.get('adapter_model.safetensors')!).toString()).toBe('weights');
    const gone = join(folder, 'gone');
    expect(() => adapterFiles({ folder: gone })).toThrow(
      `in ${gone} of its own disk, which cannot be read here`,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

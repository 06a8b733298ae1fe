import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { torch } from './torch.ts';

test('a model that sees, of a class that is not implemented, is refused before a worker is started', async () => {
  const model = await mkdtemp(join(tmpdir(), 'rollcall-seeing-'));
  await writeFile(
    join(model, 'config.json'),
    JSON.stringify({ model_type: 'smolvlm', vision_config: { depth: 2 } }),
  );
  await expect(torch({ python: '/no/such/python' }).open('policy', model)).rejects.toThrow(
    `${model} is a model that sees (smolvlm), which the PyTorch trainer does not train`,
  );
});

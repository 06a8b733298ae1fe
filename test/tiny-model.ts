import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createModel } from 'rollcall';
import { BYTE_TEMPLATE, byteTokenizerJson } from 'rollcall/testing';

/** A folder with a random model that reads and writes bytes; `tiny` has a few thousand weights. */
export async function tinyModel(seed = 1, size: 'tiny' | '1m' = 'tiny'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-tiny-'));
  const tokenizer = join(folder, 'tokenizer');
  await mkdir(tokenizer);
  await writeFile(join(tokenizer, 'tokenizer.json'), JSON.stringify(byteTokenizerJson()));
  await writeFile(
    join(tokenizer, 'tokenizer_config.json'),
    JSON.stringify({ chat_template: BYTE_TEMPLATE, eos_token: '<|im_end|>' }),
  );
  const directory = join(folder, 'model');
  createModel({ directory, size, tokenizer, seed });
  return directory;
}

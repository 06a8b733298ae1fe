import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ModelConfig } from '../../src/engine/model/config.ts';
import { createModel, type ModelSize } from '../../src/engine/model/create.ts';

/** The three sizes both halves of the engine bench use, with the vocabulary each is counted with. */
export const BENCH_SIZES = [
  { name: '1M', size: '1m', vocabulary: 151 },
  { name: '11M', size: '11m', vocabulary: 2048 },
  { name: '26M', size: '26m', vocabulary: 6400 },
] as const satisfies readonly { name: string; size: ModelSize; vocabulary: number }[];

/** A random model in a temporary folder, with a tokenizer of numbered words. */
export function benchModel(
  size: ModelSize,
  vocabulary: number,
  contextTokens = 4096,
): { directory: string; config: ModelConfig } {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const vocab = Object.fromEntries(Array.from({ length: vocabulary }, (_, id) => [`w${id}`, id]));
  writeFileSync(
    join(folder, 'tokenizer.json'),
    JSON.stringify({
      version: '1.0',
      added_tokens: [],
      pre_tokenizer: { type: 'WhitespaceSplit' },
      model: { type: 'WordLevel', vocab, unk_token: 'w0' },
    }),
  );
  const directory = join(folder, 'model');
  const config = createModel({ directory, size, tokenizer: folder, overrides: { contextTokens } });
  return { directory, config };
}

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { EngineError } from '../../errors.ts';
import { readJson } from '../model/files.ts';
import type { TokenDecoder } from './stop-strings.ts';

/** The model folder's own tokenizer, for turning sampled ids into the text that stop strings are matched on. */
export function openTokenDecoder(directory: string): TokenDecoder {
  const file = join(directory, 'tokenizer.json');
  if (!existsSync(file)) {
    throw new EngineError(`sampling.stopStrings needs a tokenizer to match text; ${file} does not exist`);
  }
  const settings = join(directory, 'tokenizer_config.json');
  const tokenizer = new Tokenizer(
    readJson(file) as object,
    existsSync(settings) ? (readJson(settings) as object) : {},
  );
  const options = { skip_special_tokens: false, clean_up_tokenization_spaces: false };
  return { decode: (ids) => (ids.length === 0 ? '' : tokenizer.decode([...ids], options)) };
}

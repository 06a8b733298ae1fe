import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { createTokenizer } from '../chat/tokenizer.ts';
import { readJson } from '../engine/model/files.ts';
import { openTrainer } from '../engine/training/trainer.ts';
import { ConfigError } from '../errors.ts';
import { positive, wholes } from './number.ts';

interface LogprobsOptions {
  readonly model: string;
  readonly ids?: number[];
  readonly text?: string;
  readonly temperature: number;
  readonly json?: boolean;
}

export function registerLogprobs(program: Command): void {
  program
    .command('logprobs')
    .description('log-probs and entropies of a text or of ids under a model, token by token')
    .requiredOption('--model <directory>', 'a model folder')
    .option('--ids <list>', 'token ids, separated by commas', wholes(0))
    .option('--text <text>', 'text, encoded by the model’s tokenizer without special tokens added')
    .option('--temperature <t>', 'divides the logits', positive, 1)
    .option('--json', 'as JSON: {ids, logprobs, entropies}; nothing predicts the first token, so it has null')
    .action(logprobs);
}

async function logprobs(options: LogprobsOptions): Promise<void> {
  const { temperature } = options;
  const encoding = readIds(options);
  const ids = Int32Array.from(encoding.ids);
  const targets = new Uint8Array(ids.length).fill(1);
  targets[0] = 0;
  const trainer = await openTrainer({ model: options.model, trainable: false });
  try {
    const scored = await trainer.score([{ ids, targets }], { temperature, outputs: ['logprob', 'entropy'] });
    const logprobs = withoutFirst(scored.logprob![0]!);
    const entropies = withoutFirst(scored.entropy![0]!);
    if (options.json) console.log(JSON.stringify({ ids: [...ids], logprobs, entropies }));
    else {
      for (const [index, id] of ids.entries()) {
        const numbers = [logprobs[index], entropies[index]].map((value) => value?.toFixed(4) ?? '–');
        console.log(
          [
            String(id).padStart(8),
            ...numbers.map((text) => text.padStart(10)),
            encoding.tokens?.[index] ?? '',
          ].join('  '),
        );
      }
    }
  } finally {
    await trainer.close();
  }
}

const withoutFirst = (values: Float32Array) =>
  [...values].map((value, index) => (index === 0 ? null : value));

function readIds({ model, ids, text }: LogprobsOptions): { ids: number[]; tokens?: string[] } {
  if ((ids === undefined) === (text === undefined)) throw new ConfigError('give either --ids or --text');
  if (ids !== undefined) return { ids };
  return encode(model, text!);
}

function encode(model: string, text: string): { ids: number[]; tokens: string[] } {
  const read = (name: string) => readJson(join(model, name));
  const config = existsSync(join(model, 'tokenizer_config.json')) ? read('tokenizer_config.json') : {};
  const tokenizer = createTokenizer(read('tokenizer.json'), config);
  const ids = tokenizer.encode(text);
  if (ids.length === 0) throw new ConfigError('--text: it has no tokens');
  return { ids: [...ids], tokens: [...ids].map((id) => JSON.stringify(tokenizer.decode(Int32Array.of(id)))) };
}

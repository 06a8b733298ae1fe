import type { Command } from 'commander';
import { unguard } from '../chat/added-tokens.ts';
import { loadChatFormat, loadModelFiles } from '../chat/model-files.ts';
import { findModelFolder } from '../chat/model-folder.ts';
import type { ServedAs } from '../engine/arithmetic.ts';
import { openServer } from '../engine/server.ts';
import { ConfigError } from '../errors.ts';
import type { SamplingParams } from '../inference/server.ts';
import { number, positive, whole } from './number.ts';
import { weightsOption } from './weights-option.ts';

interface GenerateFlags {
  readonly model: string;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly seed: number;
  readonly stop: readonly string[];
  readonly adapter?: string;
  readonly weights: ServedAs;
  readonly chat?: boolean;
  readonly json?: boolean;
}

export function registerGenerate(program: Command): void {
  program
    .command('generate')
    .description('continue a text with a model, as it is sampled')
    .argument('<text>', 'the text to continue; with --chat, what the user says')
    .requiredOption('--model <directory>', 'a model folder, or a name on the Hugging Face Hub')
    .option('--max-tokens <n>', 'tokens of the reply', whole(1), 128)
    .option('--temperature <t>', '0 is greedy', number(0), 0)
    .option('--top-p <p>', '1 is off', number(0, 1), 1)
    .option('--top-k <k>', '-1 is off', whole(-1), -1)
    .option('--min-p <p>', '0 is off', number(0, 1), 0)
    .option('--repetition-penalty <r>', '1 is off', positive, 1)
    .option('--seed <n>', 'the same seed gives the same text', whole(0), 0)
    .option('--stop <text>', 'end where this text appears; may be repeated', collect, [])
    .option('--adapter <directory>', 'a LoRA adapter in the PEFT layout')
    .addOption(weightsOption())
    .option('--chat', "put the text into the model's chat template")
    .option('--json', 'instead of the text, {prompt, ids, logprobs, finish, text} at the end')
    .action(generate);
}

const collect = (value: string, list: readonly string[]) => [...list, value];

async function generate(text: string, flags: GenerateFlags): Promise<void> {
  const model = await findModelFolder(flags.model, { weights: true });
  const { prompt, stopIds, tokenizer } = await encodePrompt(model, text, flags.chat === true);
  const server = await openServer({ model, weights: flags.weights });
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt);
  try {
    if (flags.adapter !== undefined) {
      await server.update({ kind: 'lora', version: 0, name: flags.adapter, path: flags.adapter });
    }
    const shown = tokenizer.decoder();
    const show = (ids: Int32Array) => {
      if (!stopIds.includes(ids[0]!)) process.stdout.write(unguard(shown.push(ids)));
    };
    const reply = await server.generate({
      id: 'generate',
      trajectory: 'generate',
      prompt,
      sampling: samplingOf(flags, stopIds),
      signal: interrupted.signal,
      ...(flags.adapter === undefined ? {} : { adapter: flags.adapter }),
      ...(flags.json ? {} : { onTokens: show }),
    });
    if (flags.json) {
      const { ids, logprobs, finish } = reply;
      const fields = { prompt: [...prompt], ids: [...ids], logprobs: [...logprobs], finish };
      console.log(JSON.stringify({ ...fields, text: tokenizer.decode(ids) }));
    } else console.log(unguard(shown.end()));
  } finally {
    process.off('SIGINT', interrupt);
    await server.close();
  }
}

async function encodePrompt(model: string, text: string, chat: boolean) {
  const { tokenizer, eosIds } = await loadModelFiles(model);
  if (chat) {
    const format = await loadChatFormat(model);
    const { ids } = format.renderPrompt([{ role: 'user', content: text }], []);
    return { prompt: ids, stopIds: format.stopIds, tokenizer };
  }
  const prompt = tokenizer.encode(text);
  if (prompt.length === 0) throw new ConfigError('the text has no tokens; give at least one');
  return { prompt, stopIds: eosIds, tokenizer };
}

function samplingOf(flags: GenerateFlags, stopIds: readonly number[]): SamplingParams {
  return {
    temperature: flags.temperature,
    topP: flags.topP,
    topK: flags.topK,
    minP: flags.minP,
    repetitionPenalty: flags.repetitionPenalty,
    presencePenalty: 0,
    frequencyPenalty: 0,
    maxTokens: flags.maxTokens,
    stopIds,
    stopStrings: flags.stop,
    seed: flags.seed,
  };
}

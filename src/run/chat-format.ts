import type { ChatFormat } from '../chat/format.ts';
import { loadChatFormat, loadModelFiles } from '../chat/model-files.ts';
import { findModelFolder } from '../chat/model-folder.ts';
import { requireSelfTest } from '../chat/self-test.ts';
import { ConfigError } from '../errors.ts';
import type { ChatOverrides } from '../options.ts';
import { CANARIES } from './attest.ts';

interface FormatOptions {
  readonly trustPrompt?: boolean;
  /** Whether the self-test also covers dialogues with tools. */
  readonly tools?: boolean;
  readonly chat?: ChatOverrides | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A model's own files, by path or hub name, and its chat format, proven on ids before anything is sampled. */
export async function openChatFormat(
  model: string,
  { trustPrompt = false, tools = true, chat = {}, signal }: FormatOptions = {},
): Promise<{ directory: string; format: ChatFormat }> {
  const directory = await findModelFolder(model, { weights: true, ...(signal ? { signal } : {}) });
  const format = await loadChatFormat(directory, { ...chat, trustPromptSpecialTokens: trustPrompt });
  requireSelfTest(format, { tools });
  return { directory, format };
}

/** The folder of another model that reads the same tokens. */
export async function findSpeaking(name: string, format: ChatFormat, signal?: AbortSignal): Promise<string> {
  const { folder, tokenizer } = await loadModelFiles(name, { weights: true, ...(signal ? { signal } : {}) });
  const different = CANARIES.find((text) => {
    const [ids, others] = [format.encodeText(text), tokenizer.encode(text)];
    return ids.length !== others.length || ids.some((id, at) => id !== others[at]);
  });
  if (different === undefined) return folder;
  throw new ConfigError(
    `the critic ${name} does not have the policy's tokenizer: ${JSON.stringify(different)} gets other tokens; a critic reads the policy's tokens`,
  );
}

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { Message, ToolSchema } from '../types.ts';
import { createChatFormat } from './chat-format.ts';
import { selfTest } from './self-test.ts';
import { createTokenizer } from './tokenizer.ts';

const read = (path: string) =>
  JSON.parse(readFileSync(new URL(`../../test/${path}`, import.meta.url), 'utf8'));

/** By `tokenizers` and `transformers`: test/golden/chat/make.py. */
interface Golden {
  readonly date: string;
  readonly texts: readonly { readonly text: string; readonly ids: number[]; readonly decoded: string }[];
  readonly dialogues: readonly {
    readonly name: string;
    readonly ids?: number[];
    readonly refused?: string;
  }[];
}
const { cases, tools } = read('data/chat-golden.json') as {
  readonly cases: { readonly name: string; readonly withTools: boolean; readonly messages: Message[] }[];
  readonly tools: ToolSchema[];
};

describe.each(['qwen3', 'llama3', 'gemma4'])('a tokenizer with the structure of %s', (name) => {
  const json = read(`golden/chat/${name}/tokenizer.json`);
  const config = read(`golden/chat/${name}/tokenizer_config.json`);
  const golden: Golden = read(`golden/chat/${name}/golden.json`);
  const tokenizer = createTokenizer(json, config);
  const format = createChatFormat({
    tokenizer,
    template: config.chat_template,
    date: new Date(golden.date),
  });

  test.each(golden.texts)('$text has the ids and the text of the Rust library', ({ text, ids, decoded }) => {
    expect([...tokenizer.encode(text)]).toEqual(ids);
    expect(tokenizer.decode(Int32Array.from(ids))).toBe(decoded);
  });

  test.each(golden.dialogues)('$name has the prompt of transformers', ({ name: dialogue, ids, refused }) => {
    const { messages, withTools } = cases.find((each) => each.name === dialogue)!;
    const prompt = () => [...format.renderPrompt(messages, withTools ? tools : []).ids];
    if (refused === undefined) expect(prompt()).toEqual(ids);
    else expect(prompt).toThrow(refused);
  });

  test('passes the self-test', () => {
    expect(selfTest(format, { tools: true }).checks.filter(({ outcome }) => outcome === 'failed')).toEqual(
      [],
    );
  });
});

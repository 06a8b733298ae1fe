import type { ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

const END = '<|message_sep|>';

/**
 * GigaChat 3: a call is a separate message.
 *
 *   Let me add.<|message_sep|>
 *
 *   function call<|role_sep|>
 *   {"name": "add", "arguments": {"a": 1}}
 */
export const gigachat: ToolFormat = {
  name: 'gigachat3',
  blocks: [
    jsonBlock('function call<|role_sep|>', [END, '</s>']),
    jsonBlock('<|function_call|>', [END, '</s>']),
  ],
  ignored: [END, '</s>'],
};

import type { Block, ToolFormat } from './grammar.ts';
import { growJsonCall } from './growing-call.ts';
import { jsonBlock } from './json-block.ts';

/** A mark that is also a word: without a list behind it, it is one. */
const functools: Block = {
  open: 'functools',
  close: [],
  read: (body, context) => {
    if (!/^\s*\[/.test(body)) return [{ kind: 'content', text: `functools${body}` }];
    return jsonBlock('functools', []).read!(body, context);
  },
  grow: () => growJsonCall(),
};

/**
 * Phi-4-mini and Firefunction:
 *
 *   functools[{"name": "add", "arguments": {"a": 1}}]
 *   <|tool_call|>[{"name": "add", "arguments": {"a": 1}}]<|/tool_call|>
 */
export const phi4Mini: ToolFormat = {
  name: 'phi4_mini_json',
  blocks: [functools, jsonBlock('<|tool_call|>', ['<|/tool_call|>'])],
};

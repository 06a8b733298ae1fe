import { THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

/**
 * Hermes 2 Pro, Qwen2.5, Qwen3, Granite 4 and many after them:
 *
 *   <tool_call>
 *   {"name": "add", "arguments": {"a": 1, "b": 2}}
 *   </tool_call>
 */
export const hermes: ToolFormat = {
  name: 'hermes',
  blocks: [THINK, jsonBlock('<tool_call>', ['</tool_call>'])],
};

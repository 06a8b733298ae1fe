import { type Block, callFromJson, malformed, readJson, THINK, type ToolFormat } from './grammar.ts';

/**
 * Hermes 2 Pro, Qwen2.5, Qwen3 and many after them:
 *
 *   <tool_call>
 *   {"name": "add", "arguments": {"a": 1, "b": 2}}
 *   </tool_call>
 */
const call: Block = {
  open: '<tool_call>',
  close: ['</tool_call>'],
  read: (body, { closed }) => {
    const source = body.trim();
    if (!closed) return [malformed('the tool call is not closed: </tool_call> is missing', source)];
    const parsed = readJson(source);
    if ('error' in parsed) return [malformed(`the tool call is not valid JSON: ${parsed.error}`, source)];
    return [callFromJson(parsed.value, ['arguments'], source)];
  },
};

export const hermes: ToolFormat = { name: 'hermes', blocks: [THINK, call] };

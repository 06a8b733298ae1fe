import { reasoning, THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

const list = jsonBlock('<tool_calls>', ['</tool_calls>']);

/** Jamba: `<tool_calls>[{"name": "add", "arguments": {"a": 1}}]</tool_calls>`; MiniMax-M1 writes one call a line. */
export const jamba: ToolFormat = { name: 'jamba', blocks: [THINK, list] };

/** Hunyuan A13B: the same list; what the user reads stands in `<answer>`. */
export const hunyuan: ToolFormat = {
  name: 'hunyuan_a13b',
  blocks: [THINK, list],
  ignored: ['<answer>', '</answer>'],
};

/** ServiceNow Apriel: the same list; a reply begins in its reasoning, which a line ends. */
export const apriel: ToolFormat = {
  name: 'apriel',
  blocks: [
    reasoning('Here are my reasoning steps:', '[BEGIN FINAL RESPONSE]'),
    reasoning('<thinking>', '</thinking>'),
    list,
  ],
  ignored: ['[BEGIN FINAL RESPONSE]', '[END FINAL RESPONSE]'],
};

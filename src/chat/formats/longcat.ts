import { reasoning, THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

/** LongCat-Flash: `<longcat_tool_call>{"name": "add", "arguments": {"a": 1}}</longcat_tool_call>` */
export const longcat: ToolFormat = {
  name: 'longcat',
  blocks: [
    THINK,
    reasoning('<longcat_think>', '</longcat_think>'),
    jsonBlock('<longcat_tool_call>', ['</longcat_tool_call>']),
  ],
};

import { THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

/** ERNIE 4.5: calls as Hermes writes them; what the user reads stands in `<response>`. */
export const ernie: ToolFormat = {
  name: 'ernie45',
  blocks: [THINK, jsonBlock('<tool_call>', ['</tool_call>'])],
  ignored: ['<response>', '</response>'],
};

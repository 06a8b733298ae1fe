import { type JsonShape, reasoning, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

const SHAPE: JsonShape = { names: ['tool_name', 'name'], keys: ['parameters', 'arguments'] };

/**
 * Cohere Command R7B, A and 4, and the older Command R+:
 *
 *   <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1}}]<|END_ACTION|>
 *
 *   Action: ```json
 *   [{"tool_name": "add", "parameters": {"a": 1}}]
 *   ```
 */
export const cohere: ToolFormat = {
  name: 'cohere',
  stopTokens: ['<|END_OF_TURN_TOKEN|>'],
  blocks: [
    reasoning('<|START_THINKING|>', '<|END_THINKING|>'),
    jsonBlock('<|START_ACTION|>', ['<|END_ACTION|>'], SHAPE),
    jsonBlock('Action: ```json', ['```'], SHAPE),
    jsonBlock('Action:\n```json', ['```'], SHAPE),
  ],
  ignored: ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>'],
};

import { pythonJson } from '../template.ts';
import { CALL_SHAPE, THINK, type ToolFormat } from './grammar.ts';
import { growJsonCall } from './growing-call.ts';
import { jsonBlock } from './json-block.ts';
import { readJsonCalls } from './json-scan.ts';

/** Granite 3: `<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]`, or the list alone. */
export const granite: ToolFormat = {
  name: 'granite',
  blocks: [THINK, jsonBlock('<|tool_call|>', []), jsonBlock('<tool_call>', ['</tool_call>'])],
  write: (calls, isToken) => {
    const list = calls.map(({ name, arguments: given }) => ({ name, arguments: given }));
    return `${isToken('<|tool_call|>') ? '<|tool_call|>' : '<tool_call>'}${pythonJson(list)}`;
  },
  unmarked: { from: /[[{]/, read: (text) => readJsonCalls(text, CALL_SHAPE), grow: () => growJsonCall() },
};

/** Granite 20B for function calling: `<function_call> {"name": "add", "arguments": {"a": 1}}`, one mark a call. */
export const granite20b: ToolFormat = {
  name: 'granite_20b_fc',
  blocks: [THINK, jsonBlock('<function_call>', [])],
};

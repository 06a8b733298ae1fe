import { THINK, type ToolFormat } from './grammar.ts';
import { jsonBlock } from './json-block.ts';

/** Nemotron Nano 2: `<TOOLCALL>[{"name": "add", "arguments": {"a": 1}}]</TOOLCALL>` */
export const nemotron: ToolFormat = {
  name: 'nemotron',
  blocks: [THINK, jsonBlock('<TOOLCALL>', ['</TOOLCALL>'])],
};

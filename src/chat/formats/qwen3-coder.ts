import { type Block, THINK, type ToolFormat } from './grammar.ts';
import { readTaggedCalls, type Tags } from './tagged.ts';
import { typedValue } from './typed-value.ts';

const tags: Tags = {
  call: { open: /<function=([^<>\n]*)>/g, close: '</function>' },
  parameter: { open: /<parameter=([^<>\n]*)>/g, close: '</parameter>' },
  broken: /<parameter=/,
  value: typedValue,
};

const call: Block = {
  open: '<tool_call>',
  close: ['</tool_call>'],
  read: (body, context) => readTaggedCalls(body, tags, context),
};

/** Some replies leave the outer tag away. */
const bare: Block = {
  open: '<function=',
  close: ['</function>'],
  until: ['<function=', '<tool_call>'],
  read: (body, { tools, closed }) =>
    readTaggedCalls(`<function=${body}${closed ? '</function>' : ''}`, tags, { tools, closed: false }),
};

/**
 * Qwen3-Coder and Qwen3.5. Values are bare text, read in the type that the tool's schema gives them:
 *
 *   <tool_call>
 *   <function=add>
 *   <parameter=a>
 *   1
 *   </parameter>
 *   </function>
 *   </tool_call>
 */
export const qwen3Coder: ToolFormat = {
  name: 'qwen3_coder',
  blocks: [THINK, call, bare],
  ignored: ['</tool_call>'],
};

/** ByteDance Seed-OSS: the same inside tags of its own. */
export const seed: ToolFormat = {
  name: 'seed',
  blocks: [
    { ...THINK, open: '<seed:think>', close: ['</seed:think>'] },
    { ...call, open: '<seed:tool_call>', close: ['</seed:tool_call>'] },
  ],
};

const invokes: Tags = {
  call: { open: /<invoke name="([^">\n]*)">/g, close: '</invoke>' },
  parameter: { open: /<parameter name="([^">\n]*)">/g, close: '</parameter>' },
  broken: /<parameter\b/,
  value: typedValue,
};

/** MiniMax-M1 and M2: several invocations in a block. */
export const minimax: ToolFormat = {
  name: 'minimax',
  blocks: [
    THINK,
    {
      open: '<minimax:tool_call>',
      close: ['</minimax:tool_call>'],
      read: (body, context) => readTaggedCalls(body, invokes, context),
    },
  ],
};

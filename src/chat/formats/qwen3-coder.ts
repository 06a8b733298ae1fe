import { type Block, reasoning, THINK, type ToolFormat } from './grammar.ts';
import { readTaggedCalls, type Tags } from './tagged.ts';
import { typedValue } from './typed-value.ts';

const tags: Tags = {
  callOpen: '<function=([^<>\\n]*)>',
  callClose: '</function>',
  parameterOpen: '<parameter=([^<>\\n]*)>',
  parameterClose: '</parameter>',
  broken: /<(?:parameter|function)=/,
  value: typedValue,
  onLines: true,
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
 * Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5 and MiMo. Values are bare text, read in the type that the tool's
 * schema gives them:
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

/** ByteDance Seed-OSS: the same inside its own tags. */
export const seed: ToolFormat = {
  name: 'seed',
  blocks: [
    reasoning('<seed:think>', '</seed:think>'),
    { ...call, open: '<seed:tool_call>', close: ['</seed:tool_call>'] },
  ],
};

import { type Block, THINK, type ToolFormat } from './grammar.ts';
import { invokeTags, readTaggedCalls } from './tagged.ts';
import { typedValue } from './typed-value.ts';

const tags = invokeTags('', typedValue);

const block = (tag: string): Block => ({
  open: `<${tag}>`,
  close: [`</${tag}>`],
  read: (body, context) => readTaggedCalls(body, tags, context),
});

/**
 * MiniMax-M2: several invocations in a block, values in their line.
 *
 *   <minimax:tool_call>
 *   <invoke name="add">
 *   <parameter name="a">1</parameter>
 *   </invoke>
 *   </minimax:tool_call>
 */
export const minimax: ToolFormat = { name: 'minimax', blocks: [THINK, block('minimax:tool_call')] };

/** dots: the same in `<dots_function_call>`, or a JSON call there. */
export const dots: ToolFormat = { name: 'dots', blocks: [THINK, block('dots_function_call')] };

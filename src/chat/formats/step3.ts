import { type Block, type BlockContext, malformed, type Piece, THINK, type ToolFormat } from './grammar.ts';
import { invokeTags, readTaggedCalls } from './tagged.ts';
import { jsonOrLiteralOrText, typedValue } from './typed-value.ts';

const SEPARATOR = '<｜tool_sep｜>';
const tags = invokeTags('steptml:', (text, types) =>
  types === undefined ? jsonOrLiteralOrText(text.trim()) : typedValue(text.trim(), types),
);

function readCall(body: string, context: BlockContext): Piece[] {
  const source = body.trim();
  const [kind = '', ...rest] = source.split(SEPARATOR);
  if (rest.length === 0) return [malformed(`the tool call has no ${SEPARATOR}`, source)];
  if (kind.trim() !== 'function')
    return [malformed(`the tool call is of the kind "${kind.trim()}", not "function"`, source)];
  return readTaggedCalls(rest.join(SEPARATOR), tags, context);
}

const call: Block = { open: '<｜tool_call_begin｜>', close: ['<｜tool_call_end｜>'], read: readCall };

/**
 * StepFun Step 3:
 *
 *   <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="add">
 *   <steptml:parameter name="a">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>
 */
export const step3: ToolFormat = {
  name: 'step3',
  blocks: [THINK, call],
  ignored: ['<｜tool_calls_begin｜>', '<｜tool_calls_end｜>'],
};

import { CALL_SHAPE, type Piece, THINK, type ToolFormat, words } from './grammar.ts';
import { growJsonCall } from './growing-call.ts';
import { jsonBlock } from './json-block.ts';
import { readJsonCalls } from './json-scan.ts';

const FENCE = /```(?:json)?\s*([\s\S]*?)```/g;

/** Calls in the fences of Markdown blocks and outside; a block without calls stays as it is. */
function readFenced(text: string): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const fence of text.matchAll(FENCE)) {
    const inside = readJsonCalls(fence[1]!, CALL_SHAPE);
    if (!inside.some(({ kind }) => kind === 'call')) continue;
    pieces.push(...readJsonCalls(text.slice(at, fence.index), CALL_SHAPE), ...inside);
    at = fence.index + fence[0].length;
  }
  const rest = text.slice(at);
  return [...pieces, ...(rest.trim() === '' ? words(rest) : readJsonCalls(rest, CALL_SHAPE))];
}

/**
 * Salesforce xLAM: a list of calls, alone, in a Markdown block or between the marks of others.
 *
 *   [{"name": "add", "arguments": {"a": 1}}]
 */
export const xlam: ToolFormat = {
  name: 'xlam',
  blocks: [THINK, jsonBlock('<tool_call>', ['</tool_call>']), jsonBlock('[TOOL_CALLS]', ['\n'])],
  unmarked: {
    from: /[[{`]/,
    read: readFenced,
    grow: () => growJsonCall(CALL_SHAPE, /^(?:```(?:json)?\s*)?(?=[[{])/),
  },
};

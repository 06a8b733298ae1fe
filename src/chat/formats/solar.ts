import { type Block, malformed, type Piece, readArguments, reasoning, type ToolFormat } from './grammar.ts';
import { growNamedCall } from './growing-call.ts';

const [NAME, ARGUMENTS, END] = ['<|tool_call:name|>', '<|tool_call:args|>', '<|tool_call:end|>'];

function readCall(body: string, closed: boolean): Piece[] {
  const source = body.trim();
  const nameAt = source.indexOf(NAME);
  const argumentsAt = source.indexOf(ARGUMENTS, nameAt);
  if (nameAt < 0 || argumentsAt < 0)
    return [malformed(`the tool call has no ${NAME} or no ${ARGUMENTS}`, source)];
  const id = source.slice(0, nameAt).trim();
  const name = source.slice(nameAt + NAME.length, argumentsAt).trim();
  const text = source.slice(argumentsAt + ARGUMENTS.length);
  const given = readArguments(text.trim() || '{}');
  if (!given) {
    const why = closed
      ? `the arguments of ${name} are not a JSON object`
      : `the tool call is not closed: ${END} is missing`;
    return [malformed(why, source)];
  }
  if (name === '') return [malformed('the tool call has no name', source)];
  return [{ kind: 'call', call: { name, arguments: given, ...(id && { id }) } }];
}

const call: Block = {
  open: '<|tool_call:begin|>',
  close: [END],
  read: (body, { closed }) => readCall(body, closed),
  grow: () =>
    growNamedCall(/^(?<id>[^<]*)<\|tool_call:name\|>\s*(?<name>[^<]+?)\s*<\|tool_call:args\|>\s*(?=\{)/),
};

/**
 * Upstage Solar Open: each message has a channel, and a call says its id, its name and its arguments.
 *
 *   <|think|>I need the sum.<|end|><|begin|>assistant<|tool_calls|>
 *   <|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>add<|tool_call:args|>{"a": 1}<|tool_call:end|><|calls|>
 */
export const solar: ToolFormat = {
  name: 'solar',
  stopTokens: ['<|end|>', '<|calls|>'],
  blocks: [reasoning('<|think|>', '<|end|>'), call],
  ignored: ['<|begin|>assistant', '<|content|>', '<|tool_calls|>', '<|calls|>', '<|end|>', '<|flush|>'],
};

import type { ToolSchema } from '../../types.ts';
import { isObject, malformed, type Piece, readArguments, THINK, type ToolFormat } from './grammar.ts';

const ARGUMENTS = '<|tool_call_argument_begin|>';

function readCall(body: string, tools: readonly ToolSchema[], closed: boolean): Piece[] {
  const source = body.trim();
  if (!closed) return [malformed('the tool call is not closed: <|tool_call_end|> is missing', source)];
  const [id = '', ...rest] = source.split(ARGUMENTS);
  if (rest.length === 0) return [malformed(`the tool call has no ${ARGUMENTS}`, source)];
  const given = readArguments(rest.join(ARGUMENTS).trim());
  if (!given) return [malformed('the arguments of the tool call are not a JSON object', source)];
  const name = nameOf(id.trim(), given, tools);
  if (name === undefined)
    return [malformed(`the id "${id.trim()}" does not say which tool is called`, source)];
  return [{ kind: 'call', call: { id: id.trim(), name, arguments: given } }];
}

/** `functions.add:0` says it; from other ids: the only tool whose name is in it, or that has these arguments. */
function nameOf(
  id: string,
  given: Record<string, unknown>,
  tools: readonly ToolSchema[],
): string | undefined {
  const stated = /^functions\.(.+?)(?::\d+)?$/s.exec(id)?.[1];
  if (stated !== undefined) return stated;
  const names = tools.map((tool) => tool.function.name);
  const written = /^(.+?)(?::\d+)?$/s.exec(id)?.[1];
  if (written !== undefined && (names.length === 0 || names.includes(written))) return written;
  const inside = names.filter((name) => id.includes(name));
  if (inside.length === 1) return inside[0];
  const fitting = tools.filter(({ function: { parameters } }) => {
    const required = Array.isArray(parameters.required) ? parameters.required.map(String) : [];
    const known = isObject(parameters.properties) ? Object.keys(parameters.properties) : [];
    const keys = Object.keys(given);
    return required.every((key) => keys.includes(key)) && keys.every((key) => known.includes(key));
  });
  return fitting.length === 1 ? fitting[0]!.function.name : undefined;
}

/**
 * Kimi K2. The model writes the call's id, which names the tool:
 *
 *   <|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}
 *   <|tool_call_end|><|tool_calls_section_end|>
 */
export const kimi: ToolFormat = {
  name: 'kimi',
  stopTokens: ['<|im_end|>'],
  blocks: [
    THINK,
    {
      open: '<|tool_call_begin|>',
      close: ['<|tool_call_end|>'],
      read: (body, { tools, closed }) => readCall(body, tools, closed),
    },
  ],
  ignored: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
};

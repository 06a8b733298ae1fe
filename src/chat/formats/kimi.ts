import type { ToolSchema } from '../../types.ts';
import { isObject, malformed, type Piece, readArguments, THINK, type ToolFormat } from './grammar.ts';
import { growNamedCall } from './growing-call.ts';

const ARGUMENTS = '<|tool_call_argument_begin|>';

function readCall(body: string, tools: readonly ToolSchema[], closed: boolean): Piece[] {
  const source = body.trim();
  const [id = '', ...rest] = source.split(ARGUMENTS);
  if (rest.length === 0) return [malformed(`the tool call has no ${ARGUMENTS}`, source)];
  const given = readArguments(rest.join(ARGUMENTS).trim() || (closed ? '{}' : ''));
  if (!given) {
    const missing = closed
      ? 'the arguments of the tool call are not a JSON object'
      : 'the tool call is not closed: <|tool_call_end|> is missing';
    return [malformed(missing, source)];
  }
  const name = nameOf(id.trim(), given, tools);
  if (name === undefined)
    return [malformed(`the id "${id.trim()}" does not say which tool is called`, source)];
  return [{ kind: 'call', call: { id: id.trim(), name, arguments: given } }];
}

/** `functions.add:0` says it; from other ids: the only tool whose name is in it, or whose arguments fit best. */
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
  if (names.length === 1 && /^\d+$/.test(id)) return names[0];
  const [best, second] = tools
    .map((tool) => ({ name: tool.function.name, fit: fitOf(tool, given) }))
    .sort((a, b) => b.fit - a.fit);
  return best && best.fit > 0 && best.fit > (second?.fit ?? 0) ? best.name : undefined;
}

/** Arguments that the tool knows, less those it does not; none fits if a required one is missing. */
function fitOf({ function: { parameters } }: ToolSchema, given: Record<string, unknown>): number {
  const required = Array.isArray(parameters.required) ? parameters.required.map(String) : [];
  if (!required.every((key) => key in given)) return 0;
  const known = isObject(parameters.properties) ? parameters.properties : {};
  const keys = Object.keys(given);
  const fitting = keys.filter((key) => key in known).length;
  return fitting - (keys.length - fitting);
}

const HEAD = /^\s*(?<id>functions\.(?<name>[^\s<]+?)(?::\d+)?)\s*<\|tool_call_argument_begin\|>\s*(?=\{)/;

/**
 * Kimi K2 and K2.5. The model writes the call's id, which names the tool:
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
      close: ['<|tool_call_end|>', '<|tool_calls_section_end|>'],
      until: ['<|tool_call_begin|>'],
      read: (body, { tools, closed }) => readCall(body, tools, closed),
      grow: () => growNamedCall(HEAD),
    },
  ],
  ignored: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
};

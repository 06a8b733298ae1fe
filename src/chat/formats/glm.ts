import { malformed, type Piece, THINK, type ToolFormat } from './grammar.ts';
import { jsonOrText, typesOf } from './typed-value.ts';

/** What stands between two tags from `at` on, white space before them; undefined if they are not there. */
function tagged(
  text: string,
  at: number,
  tag: string,
): { readonly body: string; readonly end: number } | undefined {
  const open = `<${tag}>`;
  const start = at + /^\s*/.exec(text.slice(at, at + LONGEST_SPACE))![0].length;
  if (!text.startsWith(open, start)) return undefined;
  const end = text.indexOf(`</${tag}>`, start);
  return end < 0 ? undefined : { body: text.slice(start + open.length, end), end: end + open.length + 1 };
}

const LONGEST_SPACE = 64;

/**
 * GLM-4.5 and later. Strings are bare, everything else is JSON:
 *
 *   <tool_call>add
 *   <arg_key>a</arg_key>
 *   <arg_value>1</arg_value>
 *   </tool_call>
 *
 * A reply stops at the token that opens the next message (junction.ts).
 */
export const glm: ToolFormat = {
  name: 'glm',
  stopTokens: ['<|observation|>', '<|user|>'],
  blocks: [
    THINK,
    {
      open: '<tool_call>',
      close: ['</tool_call>'],
      read: (body, { tools, closed }): Piece[] => {
        const source = body.trim();
        if (!closed) return [malformed('the tool call is not closed: </tool_call> is missing', source)];
        const head = /^[^<]*/.exec(source)![0];
        const name = head.trim();
        if (name === '' || /\s/.test(name))
          return [malformed('the tool call does not begin with a name', source)];
        const given: [string, unknown][] = [];
        for (let at = head.length; at < source.length; ) {
          const key = tagged(source, at, 'arg_key');
          const value = key && tagged(source, key.end, 'arg_value');
          if (!value) return [malformed('an argument is not a pair of <arg_key> and <arg_value>', source)];
          const parameter = key.body.trim();
          given.push([parameter, jsonOrText(value.body, typesOf(tools, name, parameter))]);
          at = value.end;
        }
        return [{ kind: 'call', call: { name, arguments: Object.fromEntries(given) } }];
      },
    },
  ],
};

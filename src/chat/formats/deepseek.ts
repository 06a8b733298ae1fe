import { malformed, type Piece, readArguments, THINK, type ToolFormat } from './grammar.ts';
import { readTaggedCalls } from './tagged.ts';
import { jsonOrText } from './typed-value.ts';

/** Without the fence of a Markdown block around it. */
function unfenced(text: string): string {
  if (!text.startsWith('```') || !text.endsWith('```') || text.length < 6) return text;
  return text.slice(3, -3).replace(/^json/, '').trim();
}

function readCall(body: string, closed: boolean): Piece[] {
  const source = body.trim();
  if (!closed) return [malformed('the tool call is not closed: <｜tool▁call▁end｜> is missing', source)];
  const [head = '', ...rest] = source.split('<｜tool▁sep｜>');
  if (rest.length === 0) return [malformed('the tool call has no <｜tool▁sep｜>', source)];
  const after = rest.join('<｜tool▁sep｜>').trim();
  // V3 and R1 write the kind, then the name on the rest of the line; V3.1 the name, then the arguments.
  const isOld = head.trim() === 'function' && !after.startsWith('{');
  const line = after.indexOf('\n');
  const name = isOld ? after.slice(0, line < 0 ? after.length : line).trim() : head.trim();
  const text = isOld ? (line < 0 ? '' : after.slice(line + 1).trim()) : after;
  if (name === '') return [malformed('the tool call has no name', source)];
  const given = readArguments(unfenced(text));
  if (!given) return [malformed(`the arguments of ${name} are not a JSON object`, source)];
  return [{ kind: 'call', call: { name, arguments: given } }];
}

/**
 * DeepSeek V3, R1 and V3.1:
 *
 *   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add
 *   ```json
 *   {"a": 1}
 *   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
 *
 *   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
 */
export const deepseek: ToolFormat = {
  name: 'deepseek',
  blocks: [
    THINK,
    {
      open: '<｜tool▁call▁begin｜>',
      close: ['<｜tool▁call▁end｜>'],
      read: (body, { closed }) => readCall(body, closed),
    },
  ],
  ignored: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
};

/** DeepSeek V3.2 and V4: tags of their own, and each parameter says whether it is a string. */
export const deepseekV4: ToolFormat = {
  name: 'deepseek_v4',
  blocks: [
    THINK,
    ...['function_calls', 'tool_calls'].map((tag) => ({
      open: `<｜DSML｜${tag}>`,
      close: [`</｜DSML｜${tag}>`],
      read: (body: string, context: Parameters<typeof readTaggedCalls>[2]) =>
        readTaggedCalls(
          body,
          {
            call: { open: /<｜DSML｜invoke name="([^">\n]*)">/g, close: '</｜DSML｜invoke>' },
            parameter: {
              open: /<｜DSML｜parameter name="([^">\n]*" string="(?:true|false))">/g,
              close: '</｜DSML｜parameter>',
            },
            broken: /<｜DSML｜parameter/,
            key: (head) => head.split('" string="')[0]!,
            value: (text, types, head) => (head.endsWith('true') ? text : jsonOrText(text, types)),
          },
          context,
        ),
    })),
  ],
};

import { type Block, malformed, type Piece, readArguments, THINK, type ToolFormat } from './grammar.ts';
import { growNamedCall } from './growing-call.ts';
import { invokeTags, readTaggedCalls, type Tags } from './tagged.ts';
import { jsonOrText } from './typed-value.ts';

/** Removes the fence of a Markdown block around the text. */
function unfenced(text: string): string {
  return /^```(?:json)?\s*([\s\S]*?)\s*```$/.exec(text)?.[1] ?? text;
}

function readCall(body: string, closed: boolean): Piece[] {
  const source = body.trim();
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
  if (given) return [{ kind: 'call', call: { name, arguments: given } }];
  const missing = closed
    ? `the arguments of ${name} are not a JSON object`
    : 'the tool call is not closed: <｜tool▁call▁end｜> is missing';
  return [malformed(missing, source)];
}

const HEAD =
  /^\s*(?:function\s*<｜tool▁sep｜>\s*(?<name>[^\s{][^\n{]*)\n\s*(?:```(?:json)?\s*)?|(?<other>[^\s<{]+)\s*<｜tool▁sep｜>\s*(?:```(?:json)?\s*)?)(?=\{)/;

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
      close: ['<｜tool▁call▁end｜>', '<｜tool▁calls▁end｜>'],
      until: ['<｜tool▁call▁begin｜>'],
      read: (body, { closed }) => readCall(body, closed),
      grow: () => growNamedCall(HEAD),
    },
  ],
  ignored: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
};

const dsml: Tags = {
  ...invokeTags('｜DSML｜', (text, types, head) =>
    head.includes('string="true"') ? text : jsonOrText(text, types),
  ),
  parameterOpen: '<｜DSML｜parameter\\s+(name="[^"<>\\n]*"(?:\\s+string="(?:true|false)")?)\\s*>',
  key: (head) => /^name="([^"]*)"/.exec(head)![1]!,
};

const wrapped = (tag: string): Block => ({
  open: `<｜DSML｜${tag}>`,
  close: [`</｜DSML｜${tag}>`],
  read: (body, context) => readTaggedCalls(body, dsml, context),
});

/** Some replies leave the wrapper away. */
const bare: Block = {
  open: '<｜DSML｜invoke',
  close: ['</｜DSML｜invoke>'],
  until: ['<｜DSML｜invoke'],
  read: (body, { tools, closed }) =>
    readTaggedCalls(`<｜DSML｜invoke${body}${closed ? '</｜DSML｜invoke>' : ''}`, dsml, {
      tools,
      closed: false,
    }),
};

/**
 * DeepSeek V3.2 and V4: special tags, and each parameter says whether it is a string. A call may also hold
 * one JSON object, or close itself: `<｜DSML｜invoke name="now"/>`.
 */
export const deepseekV4: ToolFormat = {
  name: 'deepseek_v4',
  blocks: [THINK, wrapped('function_calls'), wrapped('tool_calls'), bare],
  ignored: ['</｜DSML｜function_calls>', '</｜DSML｜tool_calls>'],
};

import { type Block, THINK, type ToolFormat } from './grammar.ts';
import { readTaggedCalls, type Tags } from './tagged.ts';
import { jsonOrLiteralOrText, typedValue } from './typed-value.ts';

const ENTITIES: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&apos;': "'",
  '&amp;': '&',
};

/** Text of an XML element: verbatim in a CDATA section, with the five entities elsewhere. */
function xmlText(text: string): string {
  const cdata = /^\s*<!\[CDATA\[([\s\S]*)\]\]>\s*$/.exec(text);
  return cdata ? cdata[1]! : text.trim().replace(/&(?:lt|gt|quot|apos|amp);/g, (entity) => ENTITIES[entity]!);
}

const name = `\\s+name\\s*=\\s*("[^"<>\\n]*"|'[^'<>\\n]*')`;

const tags: Tags = {
  callOpen: `<function${name}\\s*>`,
  callClose: '</function>',
  parameterOpen: `<param${name}\\s*>`,
  parameterClose: '</param>',
  broken: /<(?:function|param)\b/,
  value: (text, types) =>
    types === undefined ? jsonOrLiteralOrText(xmlText(text)) : typedValue(xmlText(text), types),
};

const call: Block = {
  open: '<function ',
  close: ['</function>'],
  read: (body, { tools, closed }) =>
    readTaggedCalls(`<function ${body}${closed ? '</function>' : ''}`, tags, { tools, closed: false }),
};

/** MiniCPM 5: `<function name="add"><param name="a">1</param></function>`, values as XML text or CDATA. */
export const minicpm5: ToolFormat = { name: 'minicpm5', blocks: [THINK, call] };

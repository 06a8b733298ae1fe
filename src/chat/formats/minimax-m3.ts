import type { ToolSchema } from '../../types.ts';
import { type Block, isObject, malformed, type Piece, reasoning, type ToolFormat } from './grammar.ts';
import { namedTypes, typedValue } from './typed-value.ts';

const SPACE = ']<]minimax[>[';
const DEEPEST = 200;

class BrokenTags extends Error {}

interface Frame {
  readonly tag: string;
  readonly schema: Record<string, unknown> | undefined;
  readonly text: string;
  readonly children: [tag: string, value: unknown][];
}

/** The schema of a tag inside a value: a property, or an item of a list. */
function childSchema(schema: Frame['schema'], tag: string): Frame['schema'] {
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const found = Object.hasOwn(properties, tag) ? properties[tag] : tag === 'item' ? schema?.items : undefined;
  return isObject(found) ? found : undefined;
}

/** What a tag holds: a list of items, an object, or text in the type of its schema. */
function readValue({ tag, schema, text, children }: Frame): unknown {
  const types = schema && namedTypes(schema);
  if (children.length > 0) {
    if (text.trim() !== '') throw new BrokenTags(`words beside the tags in <${tag}>`);
    if (children.every(([child]) => child === 'item')) return children.map(([, value]) => value);
    const value = Object.fromEntries(children);
    if (Object.keys(value).length < children.length) throw new BrokenTags(`<${tag}> is a list and an object`);
    return value;
  }
  if (text.trim() === '' && types?.includes('array')) return [];
  if (text.trim() === '' && types?.includes('object')) return {};
  return typedValue(text, types);
}

/** Tags that nest, each behind the marker of the family. */
function readTree(body: string, schema: Frame['schema']): Record<string, unknown> {
  const root: Frame = { tag: '', schema, text: '', children: [] };
  const stack = [root];
  for (const piece of body.split(SPACE)) {
    if (piece.trim() === '') continue;
    const tag = /^\s*<(\/?)([^<>]+)>/.exec(piece);
    if (!tag) throw new BrokenTags(`expected a tag, found ${JSON.stringify(piece.slice(0, 20))}`);
    const [whole, isClosing, name = ''] = tag;
    const frame = stack.at(-1)!;
    const rest = piece.slice(whole.length);
    if (isClosing === '') {
      if (stack.length > DEEPEST) throw new BrokenTags(`nested deeper than ${DEEPEST} levels`);
      stack.push({
        tag: name.trim(),
        schema: childSchema(frame.schema, name.trim()),
        text: rest,
        children: [],
      });
      continue;
    }
    if (stack.length === 1 || frame.tag !== name.trim()) throw new BrokenTags(`</${name}> closes nothing`);
    if (rest.trim() !== '') throw new BrokenTags(`words after </${name}>`);
    stack.pop();
    const { children } = stack.at(-1)!;
    if (frame.tag !== 'item' && children.some(([known]) => known === frame.tag))
      throw new BrokenTags(`${frame.tag} is given twice`);
    children.push([frame.tag, readValue(frame)]);
  }
  if (stack.length > 1) throw new BrokenTags(`<${stack.at(-1)!.tag}> is not closed`);
  return Object.fromEntries(root.children);
}

function readCalls(body: string, tools: readonly ToolSchema[], closed: boolean): Piece[] {
  const parts = body.split(/\]<\]minimax\[>\[\s*(?=<invoke\b)/);
  const [before = '', ...invokes] = parts;
  const pieces: Piece[] =
    before.trim() === '' ? [] : [malformed('the tool call names no function', before.trim())];
  if (invokes.length === 0 && pieces.length === 0)
    return [
      malformed(closed ? 'the tool call names no function' : 'the tool call is not closed', body.trim()),
    ];
  return [...pieces, ...invokes.map((text) => readInvoke(text, tools))];
}

function readInvoke(text: string, tools: readonly ToolSchema[]): Piece {
  const source = text.trim();
  const head = /^<invoke\s+name="([^"<>]+)"\s*>/.exec(text);
  if (!head) return malformed('the tool call names no function', source);
  const name = head[1]!;
  const close = text.search(/\]<\]minimax\[>\[\s*<\/invoke>/);
  if (close < 0) return malformed(`the call of ${name} is not closed: </invoke> is missing`, source);
  const after = text.slice(close).replace(/^\]<\]minimax\[>\[\s*<\/invoke>/, '');
  if (after.trim() !== '') return malformed(`words after the call of ${name}`, source);
  const schema = tools.find((tool) => tool.function.name === name)?.function.parameters;
  try {
    const given = readTree(text.slice(head[0].length, close), isObject(schema) ? schema : undefined);
    return { kind: 'call', call: { name, arguments: given } };
  } catch (error) {
    if (!(error instanceof BrokenTags)) throw error;
    return malformed(`the arguments of ${name} cannot be read: ${error.message}`, source);
  }
}

const call: Block = {
  open: `${SPACE}<tool_call>`,
  close: [`${SPACE}</tool_call>`],
  read: (body, { tools, closed }) => readCalls(body, tools, closed),
};

/**
 * MiniMax-M3: a marker in front of each tag, a tag for each parameter, and tags inside for objects and lists.
 *
 *   ]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="add">]<]minimax[>[<a>1]<]minimax[>[</a>
 *   ]<]minimax[>[</invoke>]<]minimax[>[</tool_call>
 */
export const minimaxM3: ToolFormat = {
  name: 'minimax_m3',
  blocks: [reasoning('<mm:think>', '</mm:think>'), call],
  ignored: ['</mm:think>'], // a reply without reasoning begins with it
};

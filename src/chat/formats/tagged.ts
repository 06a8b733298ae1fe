import type { ToolSchema } from '../../types.ts';
import { malformed, type Piece } from './grammar.ts';
import { typesOf } from './typed-value.ts';

/** Tags of formats that write a call as XML-like text, one tag a parameter, values bare. */
export interface Tags {
  readonly call: { readonly open: RegExp; readonly close: string };
  readonly parameter: { readonly open: RegExp; readonly close: string };
  /** A tag whose head may be broken, such as `<parameter=` without its `>`. */
  readonly broken: RegExp;
  /** The parameter's name, where the tag's head says more. */
  key?(head: string): string;
  value(text: string, types: string[] | undefined, head: string): unknown;
}

/**
 * Reads the calls of a block. A closing tag may be missing where the next tag shows that it was meant; `closed`
 * tells whether the block itself was closed. The tags' patterns are global and capture the name.
 */
export function readTaggedCalls(
  body: string,
  tags: Tags,
  { tools, closed }: { readonly tools: readonly ToolSchema[]; readonly closed: boolean },
): Piece[] {
  const starts = [...body.matchAll(tags.call.open)];
  if (starts.length === 0) {
    return [
      malformed(closed ? 'the tool call names no function' : 'the tool call is not closed', body.trim()),
    ];
  }
  return starts.map((start, index) => {
    const from = start.index + start[0].length;
    const next = starts[index + 1]?.index ?? body.length;
    const close = body.slice(from, next).indexOf(tags.call.close);
    const end = close >= 0 ? from + close : next;
    const isClosed = closed || close >= 0;
    return readCall(
      start[1]!.trim(),
      body.slice(from, end),
      isClosed,
      body.slice(start.index, end).trim(),
      tags,
      tools,
    );
  });
}

function readCall(
  name: string,
  body: string,
  closed: boolean,
  source: string,
  tags: Tags,
  tools: readonly ToolSchema[],
): Piece {
  if (name === '') return malformed('the tool call has no name', source);
  if (!closed) return malformed(`the call of ${name} is not closed: ${tags.call.close} is missing`, source);
  const given: [string, unknown][] = [];
  const starts = [...body.matchAll(tags.parameter.open)];
  const lastClose = body.lastIndexOf(tags.parameter.close);
  let at = 0;
  for (const [index, start] of starts.entries()) {
    if (start.index < at) continue; // inside the value before
    if (tags.broken.test(body.slice(at, start.index))) return malformed('a parameter has no ">"', source);
    const from = start.index + start[0].length;
    const close = from <= lastClose ? body.indexOf(tags.parameter.close, from) : -1;
    const next = starts[index + 1]?.index ?? body.length;
    const end = close >= 0 ? close : next;
    const head = start[1]!.trim();
    const key = tags.key?.(head) ?? head;
    given.push([key, tags.value(withoutNewlines(body.slice(from, end)), typesOf(tools, name, key), head)]);
    at = close >= 0 ? close + tags.parameter.close.length : next;
  }
  if (tags.broken.test(body.slice(at))) return malformed('a parameter has no ">"', source);
  return { kind: 'call', call: { name, arguments: Object.fromEntries(given) } };
}

/** Templates write a value on lines of its own. */
function withoutNewlines(value: string): string {
  return value.replace(/^\r?\n/, '').replace(/\r?\n$/, '');
}

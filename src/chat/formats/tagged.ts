import {
  type BlockContext,
  CALL_SHAPE,
  callsFromJson,
  malformed,
  type Piece,
  readArguments,
  readJson,
  words,
} from './grammar.ts';
import { typesOf } from './typed-value.ts';

/** Tags of formats that write a call as XML-like text, one tag a parameter, values bare. */
export interface Tags {
  /** Source of a pattern for the opening tag. Its group is the head; a tag that ends in `/>` has no body. */
  readonly callOpen: string;
  readonly callClose: string;
  readonly parameterOpen: string;
  readonly parameterClose: string;
  /** The start of an opening tag that may have been broken off, such as `<parameter=` without its `>`. */
  readonly broken: RegExp;
  /** Parameter's name from the tag's head, where that says more. */
  key?(head: string): string;
  value(text: string, types: string[] | undefined, head: string): unknown;
  /** The template writes a value on separate lines. */
  readonly onLines?: boolean;
}

/**
 * Reads the calls of a block. A closing tag may be missing where the next tag shows that it was meant. A call
 * may have a JSON object in place of its parameters. Words outside of parameters are content.
 */
export function readTaggedCalls(body: string, tags: Tags, context: BlockContext): Piece[] {
  const reader = new TaggedReader(body, tags, context);
  for (const tag of body.matchAll(tagPattern(tags))) reader.take(tag);
  return reader.end();
}

/** One pattern for all tags: a group for the head of an opening one, none for the closing ones. */
function tagPattern({ callOpen, callClose, parameterOpen, parameterClose }: Tags): RegExp {
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
  return new RegExp(
    `(?<call>${callOpen})|(?<parameter>${parameterOpen})|(?<callEnd>${escaped(callClose)})|(?<end>${escaped(parameterClose)})`,
    'g',
  );
}

interface OpenCall {
  readonly from: number;
  readonly name: string;
  readonly given: [string, unknown][];
  readonly twice: Piece[];
  /** Words between the parameters. */
  readonly around: string[];
}

class TaggedReader {
  readonly #body: string;
  readonly #tags: Tags;
  readonly #context: BlockContext;
  readonly #pieces: Piece[] = [];
  #at = 0;
  #call: OpenCall | undefined;
  /** Where a tag began that cannot be read. */
  #broken: number | undefined;
  #parameter: { readonly head: string; readonly from: number } | undefined;

  constructor(body: string, tags: Tags, context: BlockContext) {
    this.#body = body;
    this.#tags = tags;
    this.#context = context;
  }

  take(tag: RegExpMatchArray): void {
    const at = tag.index!;
    const groups = tag.groups!;
    const after = at + tag[0].length;
    const head = tag.slice(1).filter((group) => group !== undefined && group !== tag[0])[0] ?? '';
    if (this.#parameter) {
      // A call that opens inside a value is part of the value.
      if (groups.call !== undefined) return;
      this.#endParameter(at);
    } else this.#takeWords(at);
    if (groups.call !== undefined) {
      this.#endCall(at, true);
      this.#endBroken(at);
      this.#call = { from: at, name: unquoted(head), given: [], twice: [], around: [] };
      if (tag[0].endsWith('/>')) this.#endCall(after, true);
    } else if (groups.parameter !== undefined) {
      if (this.#call) this.#parameter = { head: head.trim(), from: after };
      else this.#broken ??= at;
    } else if (groups.callEnd !== undefined) this.#endCall(after, true);
    this.#at = after;
  }

  end(): Piece[] {
    const { closed } = this.#context;
    if (this.#parameter && closed) this.#endParameter(this.#body.length);
    else if (!this.#parameter) this.#takeWords(this.#body.length);
    this.#endCall(this.#body.length, closed);
    this.#endBroken(this.#body.length);
    if (this.#pieces.length > 0) return this.#pieces;
    const why = closed ? 'the tool call names no function' : 'the tool call is not closed';
    return [malformed(why, this.#body.trim())];
  }

  #takeWords(until: number): void {
    const text = this.#body.slice(this.#at, until);
    if (text.trim() === '' || this.#broken !== undefined) return;
    if (this.#call) this.#call.around.push(text);
    else this.#takeOutside(text);
  }

  /** Text of a block outside of its calls: a call as JSON, words, or a tag that is broken. */
  #takeOutside(text: string): void {
    const source = text.trim();
    const json = source.startsWith('{') ? readJson(source) : undefined;
    if (json && 'value' in json) this.#pieces.push(...callsFromJson(json.value, CALL_SHAPE, source));
    else if (this.#tags.broken.test(text) || /^[{<]/.test(source)) this.#broken = this.#at;
    else this.#pieces.push(...words(text));
  }

  /** From a broken tag on, everything up to the next call is one problem. */
  #endBroken(at: number): void {
    if (this.#broken === undefined) return;
    this.#pieces.push(
      malformed('the tool call names no function', this.#body.slice(this.#broken, at).trim()),
    );
    this.#broken = undefined;
  }

  #endParameter(at: number): void {
    const { head, from } = this.#parameter!;
    const { given, name, twice } = this.#call!;
    this.#parameter = undefined;
    const key = this.#tags.key?.(head) ?? unquoted(head);
    const text = this.#body.slice(from, at);
    const earlier = given.findIndex(([known]) => known === key);
    if (earlier >= 0) {
      const [[, value]] = given.splice(earlier, 1) as [[string, unknown]];
      twice.push(malformed(`${key} is given twice; the last one counts`, JSON.stringify(value)));
    }
    const types = typesOf(this.#context.tools, name, key);
    given.push([key, this.#tags.value(this.#tags.onLines ? withoutNewlines(text) : text, types, head)]);
  }

  #endCall(at: number, isClosed: boolean): void {
    const call = this.#call;
    this.#call = undefined;
    if (!call) return;
    const unread = this.#parameter !== undefined;
    this.#parameter = undefined;
    const source = this.#body.slice(call.from, at).trim();
    const { name, given } = call;
    const around = call.around.join('');
    const json = given.length === 0 && around.trim().startsWith('{') ? around.trim() : undefined;
    const fromJson = json === undefined ? undefined : readArguments(json);
    if (name === '') this.#pieces.push(malformed('the tool call has no name', source));
    else if (fromJson) this.#pieces.push({ kind: 'call', call: { name, arguments: fromJson } });
    else if (unread || !isClosed)
      this.#pieces.push(
        malformed(`the call of ${name} is not closed: ${this.#tags.callClose} is missing`, source),
      );
    else if (json !== undefined)
      this.#pieces.push(malformed(`the arguments of ${name} are not a JSON object`, source));
    else if (this.#tags.broken.test(around)) this.#pieces.push(malformed('a parameter has no ">"', source));
    else
      this.#pieces.push(
        { kind: 'call', call: { name, arguments: Object.fromEntries(given) } },
        ...call.twice,
        ...words(around),
      );
  }
}

function unquoted(name: string): string {
  const text = name.trim();
  return /^(["']).*\1$/s.test(text) && text.length > 1 ? text.slice(1, -1) : text;
}

function withoutNewlines(value: string): string {
  return value.replace(/^\r?\n/, '').replace(/\r?\n$/, '');
}

/** `<invoke name="…">` and `<parameter name="…">` under a prefix of the family's own. */
export function invokeTags(prefix: string, value: Tags['value'], parameter = 'parameter'): Tags {
  const name = `\\s+name\\s*=\\s*("[^"<>\\n]*"|'[^'<>\\n]*'|[^<>"'\\s/]+)`;
  return {
    callOpen: `<${prefix}invoke${name}\\s*/?>`,
    callClose: `</${prefix}invoke>`,
    parameterOpen: `<${prefix}${parameter}${name}\\s*>`,
    parameterClose: `</${prefix}${parameter}>`,
    broken: new RegExp(`<${prefix}(?:invoke|${parameter})`),
    value,
  };
}

/** A template could not be read or evaluated, as Python's Jinja2 would say it. */
export class JinjaError extends Error {}

export interface Token {
  readonly kind: 'text' | 'name' | 'string' | 'integer' | 'float' | 'operator' | 'open' | 'close';
  readonly text: string;
  readonly line: number;
}

const TAG = /\{%|\{\{|\{#/g;
const SPACE = /\s+/y;
const NAME = /[A-Za-z_\u00aa-\uffff][\w\u00aa-\uffff]*/y;
const FLOAT = /\d[\d_]*(?:\.\d[\d_]*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)/y;
const INTEGER = /0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*/y;
const STRING = /'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"/y;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y;

/**
 * Tokens of a template under the two settings of chat templates, `trim_blocks` and `lstrip_blocks`: the newline
 * after a block tag goes, and so does the white space in front of one that stands first in its line.
 */
export function tokenize(template: string): Token[] {
  const source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  const tokens: Token[] = [];
  let at = 0;
  let isLineStart = true;
  let counted = 0;
  let line = 1;
  const lineAt = (position: number) => {
    for (; counted < position; counted++) if (source[counted] === '\n') line++;
    return line;
  };
  const fail = (message: string, position: number): never => {
    throw new JinjaError(`${message} (line ${lineAt(position)})`);
  };
  const addText = (text: string) => {
    if (text !== '') tokens.push({ kind: 'text', text, line: lineAt(at) });
  };
  /** Goes behind a tag's end: a hyphen takes all white space with it, a block's end one newline. */
  const leave = (end: number, sign: string, trims: boolean) => {
    at = end;
    if (sign === '-') at += /^\s*/.exec(source.slice(at))![0].length;
    else if (trims && sign !== '+' && source[at] === '\n') at++;
    isLineStart = source[at - 1] === '\n';
  };

  while (at < source.length) {
    TAG.lastIndex = at;
    const tag = TAG.exec(source);
    if (!tag) {
      addText(source.slice(at));
      break;
    }
    const start = tag.index;
    const sign = source[start + 2] ?? '';
    const before = source.slice(at, start);
    addText(strippedBefore(before, sign, tag[0] !== '{{', isLineStart));
    const inside = start + 2 + (sign === '-' || sign === '+' ? 1 : 0);
    if (tag[0] === '{#') {
      const end = source.indexOf('#}', start + 2);
      if (end < 0) fail('a comment is not closed', start);
      leave(end + 2, source[end - 1]!, true);
      continue;
    }
    const raw = tag[0] === '{%' ? /^\s*raw\s*([-+]?)%\}/.exec(source.slice(inside, inside + 200)) : null;
    if (raw) {
      const from = inside + raw[0].length;
      const end = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/.exec(source.slice(from));
      if (!end) fail('a raw block is not closed', start);
      leave(from, raw[1]!, true);
      addText(strippedBefore(source.slice(at, from + end!.index), end![1]!, true, false));
      leave(from + end!.index + end![0].length, end![2]!, true);
      continue;
    }
    tokens.push({ kind: 'open', text: tag[0], line: lineAt(start) });
    at = inside;
    readTag(tag[0] === '{%' ? '%}' : '}}');
  }
  return tokens;

  function readTag(close: string): void {
    let depth = 0;
    for (;;) {
      take(SPACE);
      if (at >= source.length) fail(`${close} is missing`, at);
      const signed = /^[-+]/.test(source[at]!) && source.startsWith(close, at + 1);
      if (depth === 0 && (signed || source.startsWith(close, at))) {
        tokens.push({ kind: 'close', text: close, line: lineAt(at) });
        leave(at + close.length + (signed ? 1 : 0), signed ? source[at]! : '', close === '%}');
        return;
      }
      const position = at;
      const add = (kind: Token['kind'], text: string) => tokens.push({ kind, text, line: lineAt(position) });
      const name = take(NAME);
      if (name !== undefined) {
        add('name', name);
        continue;
      }
      const number = take(FLOAT);
      if (number !== undefined) {
        add('float', number.replaceAll('_', ''));
        continue;
      }
      const integer = take(INTEGER);
      if (integer !== undefined) {
        add('integer', integer.replaceAll('_', ''));
        continue;
      }
      const string = take(STRING);
      if (string !== undefined) {
        add('string', unescaped(string.slice(1, -1)));
        continue;
      }
      const operator = take(OPERATOR) ?? fail(`unexpected ${JSON.stringify(source[at])}`, at);
      if ('[({'.includes(operator)) depth++;
      if ('])}'.includes(operator)) depth--;
      add('operator', operator);
    }
  }

  function take(pattern: RegExp): string | undefined {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  }
}

function strippedBefore(text: string, sign: string, isBlock: boolean, isLineStart: boolean): string {
  if (sign === '-') return text.trimEnd();
  if (!isBlock || sign === '+') return text;
  const line = text.lastIndexOf('\n') + 1;
  return (line > 0 || isLineStart) && /^\s+$/.test(text.slice(line)) ? text.slice(0, line) : text;
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
};

/** The escapes of Python's string literals; an unknown one stays as it is. */
function unescaped(text: string): string {
  return text.replace(
    /\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|[\s\S])/g,
    (whole, code: string) => {
      if (/^[xuU]./.test(code)) return String.fromCodePoint(Number.parseInt(code.slice(1), 16));
      if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
      return ESCAPES[code] ?? whole;
    },
  );
}

import { formatBraces } from './formatting.ts';
import { JinjaError } from './lexer.ts';
import {
  Callable,
  type Dict,
  entryOf,
  type Given,
  isEqual,
  itemsOf,
  numberOf,
  refuseUndefined,
  repeated,
  str,
  Tuple,
  textOf,
  typeName,
  type Value,
  View,
} from './python.ts';

type Method<T> = (self: T, given: readonly Value[], named: ReadonlyMap<string, Value>) => Value;

/** The method of a value; undefined if its type has none of that name. */
export function methodOf(value: Value, name: string): Value | undefined {
  const text = textOf(value);
  if (text !== undefined) return bound(TEXT, name, text);
  if (value instanceof Map) return MUTATING_DICT.has(name) ? unsafe(value, name) : bound(DICT, name, value);
  if (Array.isArray(value))
    return MUTATING_LIST.has(name) ? unsafe(value, name) : bound(SEQUENCE, name, value);
  if (value instanceof Tuple) return bound(SEQUENCE, name, value.items);
  return undefined;
}

function bound<T>(methods: Readonly<Record<string, Method<T>>>, name: string, self: T): Value | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  return method && new Callable(name, ({ positional, named }: Given) => method(self, positional, named));
}

/** Chat templates run in a sandbox that changes nothing: what would change a value is refused when called. */
function unsafe(value: Value, name: string): Value {
  return new Callable(name, () => {
    throw new JinjaError(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
  });
}

const MUTATING_LIST = new Set(['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove']);
const MUTATING_DICT = new Set(['clear', 'pop', 'popitem', 'setdefault', 'update']);

function textArgument(value: Value | undefined, method: string): string {
  const text = value === undefined ? undefined : textOf(value);
  if (text !== undefined) return text;
  if (value !== undefined) refuseUndefined(value);
  throw new JinjaError(
    `${method} argument must be str, not ${value === undefined ? 'missing' : typeName(value)}`,
  );
}

function countArgument(value: Value | undefined, otherwise: number): number {
  return value === undefined ? otherwise : (numberOf(value) ?? otherwise);
}

/** Python's white space, which `trim` of JavaScript has too but for a few characters. */
const SPACE = String.raw`[\s\x1c-\x1f\x85]`;
// biome-ignore lint/suspicious/noControlCharactersInRegex: Python ends lines at these too
const LINE_END = /(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])/;
const EDGES = { both: 3, start: 1, end: 2 } as const;

export function strip(text: string, characters: Value | undefined, edge: keyof typeof EDGES): string {
  const isAll = characters === undefined || characters === null;
  const set = new Set(isAll ? [] : [...textArgument(characters, 'strip')]);
  const space = new RegExp(`^${SPACE}$`);
  const drops = (character: string) =>
    isAll ? character !== '\uFEFF' && space.test(character) : set.has(character);
  const points = [...text];
  let [from, to] = [0, points.length];
  if (EDGES[edge] & 1) while (from < to && drops(points[from]!)) from++;
  if (EDGES[edge] & 2) while (to > from && drops(points[to - 1]!)) to--;
  return points.slice(from, to).join('');
}

function split(text: string, separator: Value | undefined, limit: number, fromEnd: boolean): Value[] {
  if (separator === undefined || separator === null) return splitSpace(text, limit, fromEnd);
  const mark = textArgument(separator, 'split');
  if (mark === '') throw new JinjaError('empty separator');
  const parts = text.split(mark);
  if (limit < 0 || parts.length <= limit + 1) return parts;
  if (fromEnd) return [parts.slice(0, parts.length - limit).join(mark), ...parts.slice(parts.length - limit)];
  return [...parts.slice(0, limit), parts.slice(limit).join(mark)];
}

function splitSpace(text: string, limit: number, fromEnd: boolean): Value[] {
  const words = strip(text, undefined, 'both')
    .split(new RegExp(`(${SPACE}+)`))
    .filter((part) => part !== '');
  const count = Math.ceil(words.length / 2);
  if (limit < 0 || count <= limit + 1) return words.filter((_, at) => at % 2 === 0);
  const cut = fromEnd ? words.length - 2 * limit : 2 * limit;
  const kept = fromEnd ? words.slice(cut) : words.slice(0, cut);
  const rest = (fromEnd ? words.slice(0, cut - 1) : words.slice(cut)).join('');
  const separate = kept.filter((_, at) => at % 2 === 0);
  return fromEnd ? [rest, ...separate] : [...separate, rest];
}

const capitalized = (text: string) => {
  const [first = '', ...rest] = [...text];
  return first.toUpperCase() + rest.join('').toLowerCase();
};

const titled = (text: string) => text.replace(/\p{L}+/gu, (word) => capitalized(word));

/** Whether one of the given texts is at the edge of a text. */
const atEdge =
  (test: (text: string, part: string) => boolean, name: string): Method<string> =>
  (text, [part]) =>
    (part instanceof Tuple ? part.items : [part]).some((each) => test(text, textArgument(each, name)));

const every =
  (pattern: RegExp): Method<string> =>
  (text) =>
    text !== '' && [...text].every((each) => pattern.test(each));

const cased =
  (fold: (text: string) => string): Method<string> =>
  (text) =>
    fold(text) === text &&
    /\p{L}/u.test(text) &&
    text !== (fold === lower ? text.toUpperCase() : text.toLowerCase());
const lower = (text: string) => text.toLowerCase();
const upper = (text: string) => text.toUpperCase();

const padded =
  (name: string): Method<string> =>
  (text, [width, fill]) => {
    const pad = fill === undefined ? ' ' : textArgument(fill, name);
    const size = countArgument(width, 0) - [...text].length;
    if (size <= 0) return text;
    if (name === 'ljust') return text + repeated(pad, size);
    if (name === 'rjust') return repeated(pad, size) + text;
    const left = (size >> 1) + (size & [...text].length & 1 ? 1 : 0);
    return repeated(pad, left) + text + repeated(pad, size - left);
  };

const found =
  (find: (text: string, part: string) => number, refuses: boolean): Method<string> =>
  (text, [part]) => {
    const at = find(text, textArgument(part, 'find'));
    if (at < 0 && refuses) throw new JinjaError('substring not found');
    return at < 0 ? -1 : [...text.slice(0, at)].length;
  };

const partition =
  (fromEnd: boolean): Method<string> =>
  (text, [separator]) => {
    const mark = textArgument(separator, 'partition');
    const at = fromEnd ? text.lastIndexOf(mark) : text.indexOf(mark);
    if (at < 0) return new Tuple(fromEnd ? ['', '', text] : [text, '', '']);
    return new Tuple([text.slice(0, at), mark, text.slice(at + mark.length)]);
  };

const TEXT: Readonly<Record<string, Method<string>>> = {
  strip: (text, [characters]) => strip(text, characters, 'both'),
  lstrip: (text, [characters]) => strip(text, characters, 'start'),
  rstrip: (text, [characters]) => strip(text, characters, 'end'),
  split: (text, [separator, limit], named) =>
    split(text, separator ?? named.get('sep'), countArgument(limit ?? named.get('maxsplit'), -1), false),
  rsplit: (text, [separator, limit], named) =>
    split(text, separator ?? named.get('sep'), countArgument(limit ?? named.get('maxsplit'), -1), true),
  splitlines: (text, [keep]) => {
    const lines = text.split(LINE_END);
    const pairs = lines.flatMap((line, at) => (at % 2 === 0 ? [[line, lines[at + 1] ?? ''] as const] : []));
    const isTrue = keep !== undefined && keep !== false && keep !== null && keep !== 0;
    return pairs
      .filter(([line, end], at) => at < pairs.length - 1 || line !== '' || end !== '')
      .map(([line, end]) => (isTrue ? line + end : line));
  },
  upper,
  lower,
  casefold: lower,
  title: titled,
  capitalize: capitalized,
  swapcase: (text) =>
    [...text].map((each) => (each === each.toLowerCase() ? upper(each) : lower(each))).join(''),
  replace: (text, [old, made, count]) => {
    const [mark, by] = [textArgument(old, 'replace'), textArgument(made, 'replace')];
    const most = countArgument(count, -1);
    return replaceText(text, mark, by, most);
  },
  startswith: atEdge((text, part) => text.startsWith(part), 'startswith'),
  endswith: atEdge((text, part) => text.endsWith(part), 'endswith'),
  find: found((text, part) => text.indexOf(part), false),
  rfind: found((text, part) => text.lastIndexOf(part), false),
  index: found((text, part) => text.indexOf(part), true),
  rindex: found((text, part) => text.lastIndexOf(part), true),
  count: (text, [part]) => {
    const mark = textArgument(part, 'count');
    return mark === '' ? [...text].length + 1 : text.split(mark).length - 1;
  },
  join: (text, [items]) =>
    itemsOf(items ?? [])
      .map((item, at) => {
        const each = textOf(item);
        if (each === undefined)
          throw new JinjaError(`sequence item ${at}: expected str instance, ${typeName(item)} found`);
        return each;
      })
      .join(text),
  isdigit: every(/\p{Nd}|[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]/u),
  isdecimal: every(/\p{Nd}/u),
  isnumeric: every(/\p{N}/u),
  isalpha: every(/\p{L}/u),
  isalnum: every(/[\p{L}\p{N}]/u),
  isspace: every(new RegExp(SPACE)),
  islower: cased(lower),
  isupper: cased(upper),
  zfill: (text, [width]) => {
    const sign = /^[-+]/.exec(text)?.[0] ?? '';
    const missing = Math.max(0, countArgument(width, 0) - [...text].length);
    return sign + repeated('0', missing) + text.slice(sign.length);
  },
  ljust: padded('ljust'),
  rjust: padded('rjust'),
  center: padded('center'),
  removeprefix: (text, [part]) => {
    const mark = textArgument(part, 'removeprefix');
    return text.startsWith(mark) ? text.slice(mark.length) : text;
  },
  removesuffix: (text, [part]) => {
    const mark = textArgument(part, 'removesuffix');
    return mark !== '' && text.endsWith(mark) ? text.slice(0, -mark.length) : text;
  },
  partition: partition(false),
  rpartition: partition(true),
  format: (text, positional, named) => formatBraces(text, positional, named),
};

export function replaceText(text: string, mark: string, by: string, most: number): string {
  if (most < 0)
    return mark === '' ? by + [...text].map((each) => each + by).join('') : text.split(mark).join(by);
  if (mark === '') {
    const points = [...text];
    return (
      [...points.slice(0, most).map((each) => by + each), ...points.slice(most)].join('') +
      (most > points.length ? by : '')
    );
  }
  const parts = text.split(mark);
  return [parts.slice(0, most + 1).join(by), ...parts.slice(most + 1)].join(mark);
}

const DICT: Readonly<Record<string, Method<Dict>>> = {
  get: (dict, [key = null, otherwise = null]) => {
    const entry = entryOf(dict, key);
    return entry ? entry.value : otherwise;
  },
  keys: (dict) => new View('keys', [...dict.keys()]),
  values: (dict) => new View('values', [...dict.values()]),
  items: (dict) =>
    new View(
      'items',
      [...dict].map((pair) => new Tuple(pair)),
    ),
  copy: (dict) => new Map(dict),
};

const SEQUENCE: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: (items, [wanted = null]) => {
    const at = items.findIndex((item) => isEqual(item, wanted));
    if (at < 0) throw new JinjaError(`${str(wanted)} is not in list`);
    return at;
  },
  count: (items, [wanted = null]) => items.filter((item) => isEqual(item, wanted)).length,
  copy: (items) => [...items],
};

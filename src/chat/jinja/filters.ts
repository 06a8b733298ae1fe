import type { Environment, FilterArguments } from './filter-arguments.ts';
import { formatPercent } from './formatting.ts';
import { JinjaError } from './lexer.ts';
import { replaceText, strip } from './methods.ts';
import { binary, escapeHtml } from './operators.ts';
import {
  checkList,
  compare,
  type Dict,
  dumpJson,
  Float,
  Iterator,
  isEqual,
  isTrue,
  itemsOf,
  keyOf,
  lengthOf,
  Markup,
  numberOf,
  refuseUndefined,
  repeated,
  str,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from './python.ts';

type Filter = (value: Value, given: FilterArguments, environment: Environment) => Value;

/** Text in any case is the same, unless told otherwise. */
const folded = (isSensitive: boolean) => (value: Value) => {
  const text = isSensitive ? undefined : textOf(value);
  return text === undefined ? value : text.toLowerCase();
};

/** The value by which items are ordered or grouped. */
function keyFor(
  { attribute }: Environment,
  path: Value | undefined,
  isSensitive: boolean,
): (item: Value) => Value {
  const fold = folded(isSensitive);
  if (path === undefined || path === null) return fold;
  const paths = typeof path === 'string' && path.includes(',') ? path.split(',') : [path];
  if (paths.length > 1) return (item) => new Tuple(paths.map((each) => fold(attribute(item, each))));
  return (item) => fold(attribute(item, paths[0]!));
}

const sortBy = (items: readonly Value[], key: (item: Value) => Value, isReversed: boolean) =>
  [...items]
    .map((item) => ({ item, by: key(item) }))
    .sort((a, b) => (isReversed ? compare(b.by, a.by) : compare(a.by, b.by)))
    .map(({ item }) => item);

const extreme =
  (sign: number): Filter =>
  (value, given, environment) => {
    const items = itemsOf(value);
    if (items.length === 0) return new Undefined('No aggregated item, sequence was empty.');
    const key = keyFor(environment, given.get(1, 'attribute'), given.isTrue(0, 'case_sensitive'));
    return items.reduce((best, item) => (sign * compare(key(item), key(best)) > 0 ? item : best));
  };

/** `map`: an attribute of each item, or a filter on each. */
const map: Filter = (value, given, environment) => {
  if (!isTrue(value)) return new Iterator([]);
  const path = given.named.get('attribute');
  if (given.positional.length === 0 && path !== undefined) {
    const otherwise = given.named.get('default');
    return new Iterator(
      itemsOf(value).map((item) => {
        const found = environment.attribute(item, path);
        return found instanceof Undefined && otherwise !== undefined ? otherwise : found;
      }),
    );
  }
  const name = str(given.positional[0] ?? '');
  return new Iterator(itemsOf(value).map((item) => environment.filter(name, item, given.after(1))));
};

/** `select`, `reject` and their kin on attributes: by a test, or by truth. */
const selecting =
  (wanted: boolean, byAttribute: boolean): Filter =>
  (value, given, environment) => {
    if (!isTrue(value)) return new Iterator([]);
    const path = byAttribute ? given.positional[0] : undefined;
    const rest = byAttribute ? given.after(1) : given;
    const [test] = rest.positional;
    return new Iterator(
      itemsOf(value).filter((item) => {
        const subject = path === undefined ? item : environment.attribute(item, path);
        const passes =
          test === undefined ? isTrue(subject) : environment.test(str(test), subject, rest.after(1));
        return passes === wanted;
      }),
    );
  };

const groupBy: Filter = (value, given, environment) => {
  const path = given.get(0, 'attribute');
  const key = keyFor(environment, path, given.isTrue(2, 'case_sensitive'));
  const exact = keyFor(environment, path, true);
  const groups: { by: Value; name: Value; items: Value[] }[] = [];
  for (const item of sortBy(itemsOf(value), key, false)) {
    const last = groups.at(-1);
    if (last && isEqual(last.by, key(item))) last.items.push(item);
    else groups.push({ by: key(item), name: exact(item), items: [item] });
  }
  return groups.map(({ name, items }) => new Tuple([name, items]));
};

const indent: Filter = (value, given) => {
  refuseUndefined(value);
  if (textOf(value) === undefined)
    throw new JinjaError(`unsupported operand type(s) for +=: '${typeName(value)}' and 'str'`);
  const width = given.get(0, 'width') ?? 4;
  const pad = textOf(width) ?? repeated(' ', numberOf(width) ?? 4);
  const [first = '', ...rest] = `${str(value)}\n`.split('\n').slice(0, -1);
  const blank = given.isTrue(2, 'blank');
  const lines = rest.map((line) => (line === '' && !blank ? line : pad + line));
  return [given.isTrue(1, 'first') ? pad + first : first, ...lines].join('\n');
};

const toJson: Filter = (value, given) => {
  const width = given.get(1, 'indent');
  const separators = given.get(2, 'separators');
  const [item, key] = separators && separators !== null ? itemsOf(separators).map(str) : [];
  const spaces =
    width === undefined || width === null
      ? undefined
      : (textOf(width) ?? repeated(' ', numberOf(width) ?? 0));
  return dumpJson(value, {
    indent: spaces,
    item: item ?? (spaces === undefined ? ', ' : ','),
    key: key ?? ': ',
    isAscii: given.isTrue(0, 'ensure_ascii'),
    isSorted: given.isTrue(3, 'sort_keys'),
  });
};

const round: Filter = (value, given) => {
  const number = numberOf(value);
  if (number === undefined) throw new JinjaError(`type ${typeName(value)} doesn't define __round__ method`);
  const factor = 10 ** given.number(0, 'precision', 0);
  const method = given.text(1, 'method', 'common');
  if (method === 'ceil') return new Float(Math.ceil(number * factor) / factor);
  if (method === 'floor') return new Float(Math.floor(number * factor) / factor);
  const scaled = number * factor;
  const down = Math.floor(scaled);
  const isHalf = scaled - down === 0.5;
  const rounded = (isHalf ? (down % 2 === 0 ? down : down + 1) : Math.round(scaled)) / factor;
  return value instanceof Float ? new Float(rounded) : rounded;
};

const toInteger: Filter = (value, given) => {
  refuseUndefined(value);
  const otherwise = given.get(0, 'default') ?? 0;
  const text = textOf(value)?.trim();
  if (text !== undefined && /^[-+]?\d[\d_]*$/.test(text)) return Number(text.replaceAll('_', ''));
  const number = text === undefined ? numberOf(value) : floatOf(text);
  return number === undefined || !Number.isFinite(number) ? otherwise : Math.trunc(number);
};

function floatOf(text: string): number | undefined {
  const clean = text.trim().replaceAll('_', '').toLowerCase();
  if (/^[-+]?(?:inf|infinity)$/.test(clean)) return clean.startsWith('-') ? -Infinity : Infinity;
  return /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/.test(clean) ? Number(clean) : undefined;
}

const truncate: Filter = (value, given) => {
  const [length, end] = [given.number(0, 'length', 255), given.text(2, 'end', '...')];
  if (lengthOf(value) <= length + given.number(3, 'leeway', 5)) return value;
  if (textOf(value) === undefined)
    throw new JinjaError(`'${typeName(value)}' object has no attribute 'rsplit'`);
  const text = [...str(value)];
  const cut = text.slice(0, length - [...end].length).join('');
  if (given.isTrue(1, 'killwords')) return cut + end;
  const space = cut.lastIndexOf(' ');
  return (space < 0 ? cut : cut.slice(0, space)) + end;
};

const titleWords = (text: string) =>
  text
    .split(/([-\s({[<]+)/)
    .map((word) => {
      const [first = '', ...rest] = [...word];
      return first.toUpperCase() + rest.join('').toLowerCase();
    })
    .join('');

const batch: Filter = (value, given) => {
  const size = given.number(0, 'linecount', 1);
  const fill = given.get(1, 'fill_with');
  const items = itemsOf(value);
  const rows = Array.from({ length: Math.ceil(items.length / size) }, (_, at) =>
    items.slice(at * size, (at + 1) * size),
  );
  return new Iterator(
    rows.map((row) => [
      ...row,
      ...(fill === undefined || fill === null ? [] : Array.from({ length: size - row.length }, () => fill)),
    ]),
  );
};

const defaulted: Filter = (value, given) => {
  const isMissing = value instanceof Undefined || (given.isTrue(1, 'boolean') && !isTrue(value));
  return isMissing ? (given.get(0, 'default_value') ?? '') : value;
};

const unique: Filter = (value, given, environment) => {
  const key = keyFor(environment, given.get(1, 'attribute'), given.isTrue(0, 'case_sensitive'));
  const seen: Value[] = [];
  return new Iterator(
    itemsOf(value).filter((item) => {
      const by = keyOf(key(item));
      if (seen.some((known) => isEqual(known, by))) return false;
      seen.push(by);
      return true;
    }),
  );
};

const dictSort: Filter = (value, given) => {
  if (!(value instanceof Map)) throw new JinjaError(`'${typeName(value)}' object has no attribute 'items'`);
  const at = given.text(1, 'by', 'key') === 'value' ? 1 : 0;
  const fold = folded(given.isTrue(0, 'case_sensitive'));
  const pairs = [...(value as Dict)].map((pair) => new Tuple(pair));
  return sortBy(pairs, (pair) => fold(itemsOf(pair)[at]!), given.isTrue(2, 'reverse'));
};

const reverse: Filter = (value) => {
  const text = textOf(value);
  return text === undefined ? new Iterator([...itemsOf(value)].reverse()) : [...text].reverse().join('');
};

const length: Filter = (value) => lengthOf(value);
const escaped: Filter = (value) => (value instanceof Markup ? value : new Markup(escapeHtml(str(value))));

const quoteUrl = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);

export const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) => {
    const number = numberOf(value);
    if (number === undefined) throw new JinjaError(`bad operand type for abs(): '${typeName(value)}'`);
    return value instanceof Float ? new Float(Math.abs(number)) : Math.abs(number);
  },
  attr: (value, given, { attribute }) => attribute(value, given.get(0, 'name') ?? ''),
  batch,
  capitalize: (value) => {
    const [first = '', ...rest] = [...str(value)];
    return first.toUpperCase() + rest.join('').toLowerCase();
  },
  center: (value, given) => {
    const text = str(value);
    const size = given.number(0, 'width', 80) - [...text].length;
    if (size <= 0) return text;
    const width = given.number(0, 'width', 80);
    const left = (size >> 1) + (size & width & 1);
    return repeated(' ', left) + text + repeated(' ', size - left);
  },
  count: length,
  d: defaulted,
  default: defaulted,
  dictsort: dictSort,
  e: escaped,
  escape: escaped,
  first: (value) => {
    const items = itemsOf(value);
    return items.length > 0 ? items[0]! : new Undefined('No first item, sequence was empty.');
  },
  float: (value, given) => {
    refuseUndefined(value);
    const text = textOf(value);
    const number = text === undefined ? numberOf(value) : floatOf(text);
    return number === undefined ? (given.get(0, 'default') ?? new Float(0)) : new Float(number);
  },
  forceescape: (value) => new Markup(escapeHtml(str(value))),
  format: (value, given) =>
    formatPercent(str(value), given.named.size > 0 ? new Map(given.named) : new Tuple(given.positional)),
  groupby: groupBy,
  indent,
  int: toInteger,
  items: (value) => {
    if (value instanceof Undefined) return new Iterator([]);
    if (!(value instanceof Map)) throw new JinjaError('Can only get item pairs from a mapping.');
    return new Iterator([...value].map((pair) => new Tuple(pair)));
  },
  join: (value, given, { attribute }) => {
    const path = given.get(1, 'attribute');
    const items = itemsOf(value).map((item) =>
      path === undefined || path === null ? item : attribute(item, path),
    );
    return items.map(str).join(given.text(0, 'd', ''));
  },
  last: (value) => {
    const items = itemsOf(value);
    return items.length > 0 ? items.at(-1)! : new Undefined('No last item, sequence was empty.');
  },
  length,
  list: (value) => [...itemsOf(value)],
  lower: (value) => str(value).toLowerCase(),
  map,
  max: extreme(1),
  min: extreme(-1),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: (value, given) =>
    replaceText(str(value), given.text(0, 'old', ''), given.text(1, 'new', ''), given.number(2, 'count', -1)),
  reverse,
  round,
  safe: (value) => new Markup(str(value)),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  slice: (value, given) => {
    const items = itemsOf(value);
    const count = given.number(0, 'slices', 1);
    const [each, more] = [Math.floor(items.length / count), items.length % count];
    const fill = given.get(1, 'fill_with');
    let at = 0;
    checkList(count);
    const rows = Array.from({ length: count }, (_, row) => {
      const part = items.slice(at, at + each + (row < more ? 1 : 0));
      at += part.length;
      return fill !== undefined && fill !== null && row >= more && more > 0 ? [...part, fill] : [...part];
    });
    return new Iterator(rows);
  },
  sort: (value, given, environment) =>
    sortBy(
      itemsOf(value),
      keyFor(environment, given.get(2, 'attribute'), given.isTrue(1, 'case_sensitive')),
      given.isTrue(0, 'reverse'),
    ),
  string: (value) => (value instanceof Markup ? value : str(value)),
  sum: (value, given, { attribute }) => {
    const path = given.get(0, 'attribute');
    const start = given.get(1, 'start') ?? 0;
    return itemsOf(value).reduce(
      (sum: Value, item) =>
        binary('+', sum, path === undefined || path === null ? item : attribute(item, path)),
      start,
    );
  },
  title: (value) => titleWords(str(value)),
  tojson: toJson,
  trim: (value, given) => strip(str(value), given.get(0, 'chars'), 'both'),
  truncate,
  unique,
  upper: (value) => str(value).toUpperCase(),
  urlencode: (value) => {
    const isText = textOf(value) !== undefined;
    if (isText || numberOf(value) !== undefined || value === null)
      return quoteUrl(str(value)).replaceAll('%2F', '/');
    const pairs = value instanceof Map ? [...value] : itemsOf(value).map((pair) => itemsOf(pair));
    if (pairs.some((pair) => pair.length !== 2))
      throw new JinjaError('urlencode takes pairs: each item must have two parts');
    return pairs
      .map((pair) => pair.map((part) => quoteUrl(str(part)).replaceAll('%20', '+')).join('='))
      .join('&');
  },
  wordcount: (value) => str(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
};

import { JinjaError } from './lexer.ts';

/**
 * Python's values as templates meet them. None is null, an int a number that is an integer, a str a string, a list
 * an array, a dict a Map; what JavaScript has no type for is a class here.
 */
export type Value =
  | null
  | boolean
  | number
  | string
  | Float
  | Undefined
  | Tuple
  | Markup
  | Value[]
  | Dict
  | View
  | Iterator
  | Callable
  | Opaque;

export type Dict = Map<Value, Value>;

/** A float, which Python writes and divides otherwise than an int. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/** A name or an attribute that is not there: empty as text, false, and an error in most other places. */
export class Undefined {
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

export class Tuple {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** Text that `safe` or `escape` made: text that is added to it gets escaped. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What `dict.keys()`, `values()` and `items()` give. */
export class View {
  readonly kind: 'keys' | 'values' | 'items';
  readonly items: readonly Value[];
  constructor(kind: View['kind'], items: readonly Value[]) {
    this.kind = kind;
    this.items = items;
  }
}

/** What filters such as `map` and `select` give: something to go through, true even when empty. */
export class Iterator {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

export interface Given {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export class Callable {
  readonly name: string;
  readonly call: (given: Given) => Value;
  constructor(name: string, call: (given: Given) => Value) {
    this.name = name;
    this.call = call;
  }
}

/** A thing with attributes alone: a namespace, the `loop` of a loop. */
export class Opaque {
  readonly type: string;
  readonly attribute: (name: string) => Value | undefined;
  readonly assign: ((name: string, value: Value) => void) | undefined;
  constructor(
    type: string,
    attribute: (name: string) => Value | undefined,
    assign?: (name: string, value: Value) => void,
  ) {
    this.type = type;
    this.attribute = attribute;
    this.assign = assign;
  }
}

/** JavaScript's values, as they come from JSON, as Python's. A number that is an integer is an int. */
export function fromJson(value: unknown): Value {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isInteger(value) ? value : new Float(value);
  if (typeof value === 'function')
    return new Callable('function', ({ positional }) => fromJson(value(...positional)));
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value !== 'object') return new Undefined('value');
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return new Map(entries.map(([key, item]) => [key, fromJson(item)]));
}

export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return 'int';
  if (typeof value === 'string') return 'str';
  if (value instanceof Float) return 'float';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Tuple) return 'tuple';
  if (value instanceof Markup) return 'Markup';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof View) return `dict_${value.kind}`;
  if (value instanceof Iterator) return 'generator';
  return value instanceof Opaque ? value.type : 'function';
}

export function refuseUndefined(value: Value): void {
  if (value instanceof Undefined) throw new JinjaError(`'${value.what}' is undefined`);
}

export function isTrue(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'number') return value !== 0;
  if (typeof value === 'string') return value !== '';
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Markup) return value.text !== '';
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (value instanceof Tuple || value instanceof View) return value.items.length > 0;
  return true;
}

/** Number of an int, a bool or a float; undefined for anything else. */
export function numberOf(value: Value): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  return value instanceof Float ? value.value : undefined;
}

export function textOf(value: Value): string | undefined {
  if (typeof value === 'string') return value;
  return value instanceof Markup ? value.text : undefined;
}

/** Python's `iter(value)` as an array. */
export function itemsOf(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple || value instanceof View || value instanceof Iterator) return value.items;
  if (value instanceof Map) return [...value.keys()];
  if (value instanceof Undefined) return [];
  const text = textOf(value);
  if (text !== undefined) return [...text];
  throw new JinjaError(`'${typeName(value)}' object is not iterable`);
}

/** Length in characters: Python counts code points. */
export function lengthOf(value: Value): number {
  if (value instanceof Map) return value.size;
  if (
    value instanceof Iterator ||
    numberOf(value) !== undefined ||
    value === null ||
    value instanceof Callable
  )
    throw new JinjaError(`object of type '${typeName(value)}' has no len()`);
  return itemsOf(value).length;
}

/** `str(value)`. */
export function str(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  return value instanceof Undefined ? '' : repr(value);
}

/** `repr(value)`. */
export function repr(value: Value): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return integerText(value);
  if (typeof value === 'string') return stringRepr(value);
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Markup) return `Markup(${stringRepr(value.text)})`;
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  if (value instanceof Tuple) {
    const [only] = value.items;
    return value.items.length === 1 ? `(${repr(only!)},)` : `(${value.items.map(repr).join(', ')})`;
  }
  if (value instanceof Map) {
    return `{${[...value].map(([key, item]) => `${repr(key)}: ${repr(item)}`).join(', ')}}`;
  }
  if (value instanceof View) return `dict_${value.kind}([${value.items.map(repr).join(', ')}])`;
  return `<${typeName(value)} object>`;
}

function integerText(value: number): string {
  return Math.abs(value) < 1e21 ? String(value) : BigInt(value).toString();
}

/** As `float.__repr__` writes it: the shortest digits, with an exponent below 1e-4 and from 1e16 on. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [digits = '', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
  }
  const plain = Math.abs(value) < 1e-6 ? value.toFixed(Math.max(0, digits.length)) : String(value);
  const written = /e/.test(plain) ? value.toFixed(-exponent + digits.replace(/[-.]/g, '').length - 1) : plain;
  return written.includes('.') ? written : `${written}.0`;
}

/** The mark in look-alikes of special tokens (added-tokens.ts): never text from outside, so it is kept as it is. */
const BREAKER = '\uFDD1';
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function stringRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replace(/\\/g, '\\\\')
    .replaceAll(quote, `\\${quote}`)
    .replace(/\n/g, '\\n')
    .replace(/\r/g, '\\r')
    .replace(/\t/g, '\\t')
    .replace(UNPRINTABLE, (character) => {
      const code = character.codePointAt(0)!;
      if (character === BREAKER) return character;
      if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
      return code < 0x10000
        ? `\\u${code.toString(16).padStart(4, '0')}`
        : `\\U${code.toString(16).padStart(8, '0')}`;
    });
  return quote + escaped + quote;
}

export function isEqual(a: Value, b: Value): boolean {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined || y !== undefined) return x === y;
  const [s, t] = [textOf(a), textOf(b)];
  if (s !== undefined || t !== undefined) return s === t;
  if (a instanceof Undefined || b instanceof Undefined)
    return a instanceof Undefined && b instanceof Undefined;
  if (Array.isArray(a)) return Array.isArray(b) && sameItems(a, b);
  if (a instanceof Tuple) return b instanceof Tuple && sameItems(a.items, b.items);
  if (a instanceof Map) {
    return (
      b instanceof Map &&
      a.size === b.size &&
      [...a].every(([key, item]) => b.has(key) && isEqual(item, b.get(key)!))
    );
  }
  return a === b;
}

const sameItems = (a: readonly Value[], b: readonly Value[]) =>
  a.length === b.length && a.every((item, at) => isEqual(item, b[at]!));

/** Negative, zero or positive, as Python orders two values; refuses what Python does not order. */
export function compare(a: Value, b: Value, operator = '<'): number {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return x - y;
  const [s, t] = [textOf(a), textOf(b)];
  if (s !== undefined && t !== undefined) return comparePoints(s, t);
  const lists = (Array.isArray(a) && Array.isArray(b)) || (a instanceof Tuple && b instanceof Tuple);
  if (lists) {
    const [left, right] = [itemsOf(a), itemsOf(b)];
    const at = left.findIndex((item, index) => index >= right.length || !isEqual(item, right[index]!));
    if (at < 0) return left.length - right.length;
    return at >= right.length ? 1 : compare(left[at]!, right[at]!, operator);
  }
  refuseUndefined(a);
  refuseUndefined(b);
  throw new JinjaError(
    `'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`,
  );
}

function comparePoints(a: string, b: string): number {
  const [x, y] = [[...a], [...b]];
  const at = x.findIndex((character, index) => character !== y[index]);
  if (at < 0) return x.length - y.length;
  return at >= y.length ? 1 : x[at]!.codePointAt(0)! - y[at]!.codePointAt(0)!;
}

/** `needle in haystack`. */
export function contains(haystack: Value, needle: Value): boolean {
  const text = textOf(haystack);
  if (text !== undefined) {
    const part = textOf(needle);
    if (part === undefined) {
      refuseUndefined(needle);
      throw new JinjaError(`'in <string>' requires string as left operand, not ${typeName(needle)}`);
    }
    return text.includes(part);
  }
  if (haystack instanceof Map) return hasKey(haystack, needle);
  if (numberOf(haystack) !== undefined || haystack === null)
    throw new JinjaError(`argument of type '${typeName(haystack)}' is not iterable`);
  return itemsOf(haystack).some((item) => isEqual(item, needle));
}

/** As a dict hashes: 1, 1.0 and True are one key; a list is none. */
export function keyOf(key: Value): Value {
  if (Array.isArray(key) || key instanceof Map) throw new JinjaError(`unhashable type: '${typeName(key)}'`);
  return numberOf(key) ?? (key instanceof Markup ? key.text : key);
}

/** Keys stay as they were written (`True` is not 1 when printed), but are found by what they equal. */
export function hasKey(dict: Dict, key: Value): boolean {
  return entryOf(dict, key) !== undefined;
}

export function entryOf(dict: Dict, key: Value): { readonly value: Value } | undefined {
  if (dict.has(key)) return { value: dict.get(key)! };
  const wanted = keyOf(key);
  if (typeof wanted === 'string') return dict.has(wanted) ? { value: dict.get(wanted)! } : undefined;
  for (const [known, value] of dict) if (isEqual(known, wanted)) return { value };
  return undefined;
}

export interface JsonLayout {
  readonly indent: string | undefined;
  readonly item: string;
  readonly key: string;
  readonly isAscii: boolean;
  readonly isSorted: boolean;
}

/** `json.dumps(value)`. */
export function dumpJson(value: Value, layout: JsonLayout, depth = 0): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return integerText(value);
  if (value instanceof Float) return jsonFloat(value.value);
  const text = textOf(value);
  if (text !== undefined) return jsonString(text, layout.isAscii);
  const { indent, item: between } = layout;
  const wrap = (open: string, items: readonly string[], close: string) => {
    if (items.length === 0) return open + close;
    if (indent === undefined) return open + items.join(between) + close;
    const line = `\n${indent.repeat(depth + 1)}`;
    return `${open}${line}${items.join(between + line)}\n${indent.repeat(depth)}${close}`;
  };
  if (Array.isArray(value) || value instanceof Tuple) {
    return wrap(
      '[',
      itemsOf(value).map((item) => dumpJson(item, layout, depth + 1)),
      ']',
    );
  }
  if (value instanceof Map) {
    const entries = layout.isSorted ? [...value].sort(([a], [b]) => compare(a, b)) : [...value];
    const items = entries.map(
      ([key, item]) =>
        `${jsonString(jsonKey(key), layout.isAscii)}${layout.key}${dumpJson(item, layout, depth + 1)}`,
    );
    return wrap('{', items, '}');
  }
  throw new JinjaError(`Object of type ${typeName(value)} is not JSON serializable`);
}

const jsonFloat = (value: number) =>
  Number.isFinite(value)
    ? floatText(value)
    : Number.isNaN(value)
      ? 'NaN'
      : value > 0
        ? 'Infinity'
        : '-Infinity';

function jsonKey(key: Value): string {
  const text = textOf(key);
  if (text !== undefined) return text;
  if (key === null) return 'null';
  if (typeof key === 'boolean') return String(key);
  if (typeof key === 'number') return integerText(key);
  if (key instanceof Float) return jsonFloat(key.value);
  throw new JinjaError(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
};

function jsonString(text: string, isAscii: boolean): string {
  const hex = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes these
  const escaped = text.replace(/["\\\x00-\x1f]/g, (character) => SHORT[character] ?? hex(character));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: everything that is not ASCII
  return `"${isAscii ? escaped.replace(/[^\x00-\x7f\uFDD1]/g, hex) : escaped}"`;
}

/** Longer than any prompt. A template is a file from elsewhere: it may not fill the memory. */
const LONGEST_TEXT = 2 ** 26;
const LONGEST_LIST = 2 ** 22;

/** Refuses a text that would have so many characters. */
export function checkText(length: number): void {
  if (length > LONGEST_TEXT)
    throw new JinjaError(`a text would have ${length} characters; ${LONGEST_TEXT} is the most`);
}

export function checkList(length: number): void {
  if (length > LONGEST_LIST)
    throw new JinjaError(`a list would have ${length} items; ${LONGEST_LIST} is the most`);
}

export function repeated(text: string, count: number): string {
  checkText(text.length * count);
  return text.repeat(Math.max(0, count));
}

import { formatPercent } from './formatting.ts';
import { JinjaError } from './lexer.ts';
import {
  checkList,
  checkText,
  Float,
  itemsOf,
  Markup,
  numberOf,
  refuseUndefined,
  repeated,
  str,
  Tuple,
  textOf,
  typeName,
  type Value,
} from './python.ts';

/** `left operator right`, with Python's ints, floats and errors. */
export function binary(operator: string, left: Value, right: Value): Value {
  if (operator === '~') return joined(str(left), str(right));
  const text = textOf(left);
  if (operator === '%' && text !== undefined) return formatPercent(text, right);
  refuseUndefined(left);
  refuseUndefined(right);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) {
    const isFloat = left instanceof Float || right instanceof Float;
    return arithmetic(operator, a, b, isFloat);
  }
  if (operator === '+') {
    const sum = add(left, right);
    if (sum !== undefined) return sum;
  }
  if (operator === '*') {
    const repeated = repeat(left, right) ?? repeat(right, left);
    if (repeated !== undefined) return repeated;
  }
  throw new JinjaError(
    `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`,
  );
}

function arithmetic(operator: string, a: number, b: number, isFloat: boolean): Value {
  const made = (value: number): Value => (isFloat ? new Float(value) : value);
  switch (operator) {
    case '+':
      return made(a + b);
    case '-':
      return made(a - b);
    case '*':
      return made(a * b);
    case '**':
      return isFloat || b < 0 ? new Float(a ** b) : a ** b;
  }
  if (b === 0) throw new JinjaError('division by zero');
  if (operator === '/') return new Float(a / b);
  return made(operator === '//' ? Math.floor(a / b) : a - b * Math.floor(a / b));
}

function joined(one: string, other: string): string {
  checkText(one.length + other.length);
  return one + other;
}

function add(left: Value, right: Value): Value | undefined {
  const [s, t] = [textOf(left), textOf(right)];
  if (s !== undefined && t !== undefined) {
    if (!(left instanceof Markup) && !(right instanceof Markup)) return joined(s, t);
    return new Markup(
      (left instanceof Markup ? s : escapeHtml(s)) + (right instanceof Markup ? t : escapeHtml(t)),
    );
  }
  if (Array.isArray(left) && Array.isArray(right)) checkList(left.length + right.length);
  if (Array.isArray(left) && Array.isArray(right)) return [...left, ...right];
  if (left instanceof Tuple && right instanceof Tuple) return new Tuple([...left.items, ...right.items]);
  return undefined;
}

function repeat(value: Value, times: Value): Value | undefined {
  if (typeof times !== 'number' && typeof times !== 'boolean') return undefined;
  const count = Math.max(0, Number(times));
  const text = textOf(value);
  if (text !== undefined) return repeated(text, count);
  const again = () => {
    checkList(count * Math.max(1, itemsOf(value).length));
    return Array.from({ length: count }, () => itemsOf(value)).flat();
  };
  if (Array.isArray(value)) return again();
  return value instanceof Tuple ? new Tuple(again()) : undefined;
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll("'", '&#39;')
    .replaceAll('"', '&#34;');
}

/** `value[start:stop:step]`, on code points for text. */
export function slice(value: Value, [first, last, by]: readonly (Value | undefined)[]): Value {
  refuseUndefined(value);
  const text = textOf(value);
  if (text === undefined && !Array.isArray(value) && !(value instanceof Tuple))
    throw new JinjaError(`'${typeName(value)}' object is not subscriptable`);
  const items = itemsOf(value);
  const step = by === undefined || by === null ? 1 : wholeNumber(by);
  if (step === 0) throw new JinjaError('slice step cannot be zero');
  const bound = (given: Value | undefined, otherwise: number) => {
    if (given === undefined || given === null) return otherwise;
    const at = wholeNumber(given);
    const [least, most] = step > 0 ? [0, items.length] : [-1, items.length - 1];
    return Math.min(Math.max(at < 0 ? at + items.length : at, least), most);
  };
  const start = bound(first, step > 0 ? 0 : items.length - 1);
  const stop = bound(last, step > 0 ? items.length : -1);
  const taken: Value[] = [];
  for (let at = start; step > 0 ? at < stop : at > stop; at += step) taken.push(items[at]!);
  if (text !== undefined) return taken.join('');
  return value instanceof Tuple ? new Tuple(taken) : taken;
}

function wholeNumber(value: Value): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  refuseUndefined(value);
  throw new JinjaError('slice indices must be integers or None');
}

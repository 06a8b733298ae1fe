import { JinjaError } from './lexer.ts';
import {
  checkText,
  entryOf,
  Float,
  numberOf,
  repeated,
  repr,
  str,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './python.ts';

const PERCENT = /%(?:\((\w+)\))?([-+ 0#]*)(\*|\d+)?(?:\.(\d+))?([a-zA-Z%])/g;

/** `text % values`. */
export function formatPercent(text: string, given: Value): string {
  const values = given instanceof Tuple ? [...given.items] : [given];
  let used = 0;
  const made = text.replace(
    PERCENT,
    (_, key: string | undefined, flags: string, width: string, precision, kind) => {
      if (kind === '%') return '%';
      let value: Value;
      if (key !== undefined) {
        const entry = given instanceof Map ? entryOf(given, key) : undefined;
        if (!entry) throw new JinjaError(given instanceof Map ? `'${key}'` : 'format requires a mapping');
        value = entry.value;
      } else {
        if (used >= values.length) throw new JinjaError('not enough arguments for format string');
        value = values[used++]!;
      }
      const body = percentBody(kind, value, precision === undefined ? undefined : Number(precision), flags);
      const size = width === undefined ? 0 : Number(width);
      checkText(size);
      if (flags.includes('-')) return body.padEnd(size);
      if (!flags.includes('0') || kind === 's') return body.padStart(size);
      const sign = /^[-+]/.exec(body)?.[0] ?? '';
      return sign + body.slice(sign.length).padStart(size - sign.length, '0');
    },
  );
  const takesAny = given instanceof Map || given instanceof Undefined || Array.isArray(given);
  if (used < values.length && !takesAny)
    throw new JinjaError('not all arguments converted during string formatting');
  return made;
}

function percentBody(kind: string, value: Value, precision: number | undefined, flags: string): string {
  if (kind === 's' || kind === 'r') {
    const text = kind === 's' ? str(value) : repr(value);
    return precision === undefined ? text : [...text].slice(0, precision).join('');
  }
  const number = numberOf(value);
  if (number === undefined)
    throw new JinjaError(`%${kind} format: a real number is required, not ${typeName(value)}`);
  const signed = (text: string) => (flags.includes('+') && number >= 0 ? `+${text}` : text);
  switch (kind) {
    case 'd':
    case 'i':
      return signed(String(Math.trunc(number)));
    case 'f':
    case 'F':
      return signed(number.toFixed(precision ?? 6));
    case 'x':
      return signed(Math.trunc(number).toString(16));
    case 'X':
      return signed(Math.trunc(number).toString(16).toUpperCase());
    case 'o':
      return signed(Math.trunc(number).toString(8));
    case 'e':
      return signed(number.toExponential(precision ?? 6).replace(/e([-+])(\d)$/, 'e$10$2'));
  }
  throw new JinjaError(`unsupported format character '${kind}'`);
}

const FIELD = /\{\{|\}\}|\{([^{}:!]*)(?:!([rs]))?(?::([^{}]*))?\}/g;

/** `text.format(…)`. */
export function formatBraces(
  text: string,
  positional: readonly Value[],
  named: ReadonlyMap<string, Value>,
): string {
  let next = 0;
  return text.replace(
    FIELD,
    (whole, field: string, conversion: string | undefined, spec: string | undefined) => {
      if (whole === '{{' || whole === '}}') return whole[0]!;
      const [head = '', ...path] = field.split(/[.[]/);
      const start =
        head === '' ? positional[next++] : /^\d+$/.test(head) ? positional[Number(head)] : named.get(head);
      if (start === undefined)
        throw new JinjaError(/^\d*$/.test(head) ? 'Replacement index out of range' : `'${head}'`);
      const value = path.reduce((of: Value, part) => {
        const key = part.replace(/\]$/, '');
        const found =
          of instanceof Map ? entryOf(of, key)?.value : Array.isArray(of) ? of[Number(key)] : undefined;
        if (found === undefined) throw new JinjaError(`'${key}'`);
        return found;
      }, start);
      if (conversion === 'r') return formatSpec(repr(value), spec ?? '');
      return formatSpec(value, spec ?? '');
    },
  );
}

const SPEC = /^(?:(.)?([<>^=]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su;

function formatSpec(value: Value, spec: string): string {
  if (spec === '') return str(value);
  const parts = SPEC.exec(spec);
  if (!parts) throw new JinjaError('Invalid format specifier');
  const [, fill, align, sign, , zero, width, group, precision, kind] = parts;
  const number = numberOf(value);
  let text =
    number === undefined || kind === 's' ? str(value) : numberText(value, number, { group, precision, kind });
  if (number === undefined && precision !== undefined) text = [...text].slice(0, Number(precision)).join('');
  if (number !== undefined && number >= 0 && (sign === '+' || sign === ' ')) text = sign + text;
  const size = Number(width ?? 0) - [...text].length;
  if (size <= 0) return text;
  const pad = fill ?? (zero && number !== undefined ? '0' : ' ');
  const side = align ?? (number === undefined ? '<' : zero ? '=' : '>');
  if (side === '<') return text + repeated(pad, size);
  if (side === '^') return repeated(pad, size >> 1) + text + repeated(pad, size - (size >> 1));
  const lead = side === '=' ? (/^[-+ ]/.exec(text)?.[0] ?? '') : '';
  return lead + repeated(pad, size) + text.slice(lead.length);
}

interface NumberSpec {
  readonly group: string | undefined;
  readonly precision: string | undefined;
  readonly kind: string | undefined;
}

function numberText(value: Value, number: number, { group, precision, kind }: NumberSpec): string {
  const digits = precision === undefined ? undefined : Number(precision);
  const plain = () => {
    if (kind === '%') return `${(number * 100).toFixed(digits ?? 6)}%`;
    if (kind === 'f' || kind === 'F') return number.toFixed(digits ?? 6);
    if (kind === 'e') return number.toExponential(digits ?? 6).replace(/e([-+])(\d)$/, 'e$10$2');
    if (kind === 'x' || kind === 'o' || kind === 'b') return number.toString({ x: 16, o: 8, b: 2 }[kind]);
    if (value instanceof Float && digits !== undefined) return String(Number(number.toPrecision(digits)));
    return str(value);
  };
  const text = plain();
  if (group === undefined) return text;
  const [whole = '', ...rest] = text.split(/(?=\.)/);
  return whole.replace(/\B(?=(\d{3})+(?!\d))/g, group) + rest.join('');
}

import { JinjaError } from './lexer.ts';
import {
  Callable,
  type Given,
  itemsOf,
  Opaque,
  refuseUndefined,
  str,
  typeName,
  type Value,
} from './python.ts';

const LONGEST_RANGE = 100_000;

function namespace({ positional, named }: Given): Value {
  const values = new Map<string, Value>(named);
  for (const given of positional)
    if (given instanceof Map) for (const [key, value] of given) values.set(str(key), value);
  return new Opaque(
    'Namespace',
    (name) => values.get(name),
    (name, value) => values.set(name, value),
  );
}

function range({ positional }: Given): Value {
  const [first = 0, second, by = 1] = positional.map((value) => {
    if (typeof value === 'number') return value;
    refuseUndefined(value);
    throw new JinjaError(`'${typeName(value)}' object cannot be interpreted as an integer`);
  });
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (by === 0) throw new JinjaError('range() arg 3 must not be zero');
  const length = Math.max(0, Math.ceil((stop - start) / by));
  if (length > LONGEST_RANGE)
    throw new JinjaError(
      `Range too big. The sandbox blocks ranges larger than MAX_RANGE (${LONGEST_RANGE}).`,
    );
  return Array.from({ length }, (_, at) => start + at * by);
}
/** The functions that every template has. */
export const BUILT_IN: readonly (readonly [string, Value])[] = [
  ['range', new Callable('range', range)],
  ['namespace', new Callable('namespace', namespace)],
  [
    'dict',
    new Callable('dict', ({ positional: [from], named }) => {
      const base: [Value, Value][] =
        from instanceof Map
          ? [...from]
          : itemsOf(from ?? []).map((pair) => {
              const [key = null, value = null] = itemsOf(pair);
              return [key, value];
            });
      return new Map<Value, Value>([...base, ...named]);
    }),
  ],
  [
    'raise_exception',
    new Callable('raise_exception', ({ positional: [message = ''] }) => {
      throw new JinjaError(str(message));
    }),
  ],
];

import type { FilterArguments } from './filter-arguments.ts';
import { FILTERS } from './filters.ts';
import { JinjaError } from './lexer.ts';
import {
  compare,
  Float,
  isEqual,
  Markup,
  numberOf,
  refuseUndefined,
  str,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from './python.ts';

type Test = (value: Value, given: FilterArguments) => boolean;

const ordering =
  (passes: (order: number) => boolean, operator: string): Test =>
  (value, given) =>
    passes(compare(value, given.get(0, 'other') ?? null, operator));
const equal: Test = (value, given) => isEqual(value, given.get(0, 'other') ?? null);
const lessThan = ordering((order) => order < 0, '<');
const atMost = ordering((order) => order <= 0, '<=');
const greaterThan = ordering((order) => order > 0, '>');
const atLeast = ordering((order) => order >= 0, '>=');

/** Tests of the value alone. */
const ALONE = new Set(
  'boolean callable defined escaped even false float integer iterable lower mapping none number odd sequence string true undefined upper'.split(
    ' ',
  ),
);

export function refuseArguments(test: string, { positional }: FilterArguments): void {
  if (ALONE.has(test) && positional.length > 0) throw new JinjaError(`the test "${test}" takes no arguments`);
}

function whole(value: Value): number {
  const number = numberOf(value);
  if (number !== undefined) return number;
  refuseUndefined(value);
  throw new JinjaError(`not all arguments converted during string formatting`);
}

export const TESTS: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === 'boolean',
  callable: (value) => value instanceof Undefined || typeName(value) === 'function',
  defined: (value) => !(value instanceof Undefined),
  divisibleby: (value, given) => whole(value) % whole(given.get(0, 'num') ?? 1) === 0,
  eq: equal,
  equalto: equal,
  '==': equal,
  escaped: (value) => value instanceof Markup,
  even: (value) => whole(value) % 2 === 0,
  false: (value) => value === false,
  filter: (value) => Object.hasOwn(FILTERS, str(value)),
  float: (value) => value instanceof Float,
  ge: atLeast,
  '>=': atLeast,
  gt: greaterThan,
  greaterthan: greaterThan,
  '>': greaterThan,
  integer: (value) => typeof value === 'number',
  iterable: (value) =>
    textOf(value) !== undefined ||
    value instanceof Undefined ||
    ['list', 'dict', 'tuple', 'generator', 'dict_keys', 'dict_values', 'dict_items'].includes(
      typeName(value),
    ),
  le: atMost,
  '<=': atMost,
  lower: (value) => {
    const text = str(value);
    return text === text.toLowerCase() && text !== text.toUpperCase();
  },
  lt: lessThan,
  lessthan: lessThan,
  '<': lessThan,
  mapping: (value) => value instanceof Map,
  ne: (value, given) => !equal(value, given),
  '!=': (value, given) => !equal(value, given),
  none: (value) => value === null,
  number: (value) => numberOf(value) !== undefined,
  odd: (value) => Math.abs(whole(value) % 2) === 1,
  sameas: (value, given) => value === given.get(0, 'other'),
  sequence: (value) =>
    textOf(value) !== undefined ||
    value instanceof Undefined ||
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof Map,
  string: (value) => textOf(value) !== undefined,
  test: (value) => Object.hasOwn(TESTS, str(value)),
  true: (value) => value === true,
  undefined: (value) => value instanceof Undefined,
  upper: (value) => {
    const text = str(value);
    return text === text.toUpperCase() && text !== text.toLowerCase();
  },
};

import { JinjaError } from './lexer.ts';
import { methodOf } from './methods.ts';
import {
  entryOf,
  itemsOf,
  lengthOf,
  Opaque,
  refuseUndefined,
  str,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from './python.ts';

/** `value.name`: a method of Python's type before an entry of the same name. */
export function attributeOf(value: Value, name: string): Value {
  refuseUndefined(value);
  if (name.startsWith('_'))
    throw new JinjaError(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
  const found = value instanceof Opaque ? value.attribute(name) : methodOf(value, name);
  if (found !== undefined) return found;
  const entry = value instanceof Map ? entryOf(value, name) : undefined;
  return entry ? entry.value : missing(value, name);
}

/** `value[key]`: an entry before a method of the same name. */
export function itemOf(value: Value, key: Value): Value {
  refuseUndefined(value);
  if (value instanceof Map) {
    const entry = entryOf(value, key);
    if (entry) return entry.value;
  } else if (typeof key === 'number' || typeof key === 'boolean') {
    if (!Array.isArray(value) && !(value instanceof Tuple) && textOf(value) === undefined)
      return missing(value, str(key));
    const at = Number(key);
    const item = valueAt(itemsOf(value), at < 0 ? at + lengthOf(value) : at);
    return item === undefined ? missing(value, str(key)) : item;
  }
  const name = textOf(key);
  const found =
    name === undefined ? undefined : value instanceof Opaque ? value.attribute(name) : methodOf(value, name);
  return found === undefined ? missing(value, str(key)) : found;
}

/** An item of a list; undefined, which None is not, where there is none. */
function valueAt(items: readonly Value[], at: number): Value | undefined {
  return at >= 0 && at < items.length ? items[at] : undefined;
}

const missing = (value: Value, name: string) =>
  new Undefined(`${typeName(value)} object has no attribute ${name}`);

import type { ToolSchema } from '../../types.ts';
import { isObject, readJson } from './grammar.ts';
import { readLiteral } from './python-literal.ts';

/** Types that a tool's schema allows for a parameter; undefined if it does not say. */
export function typesOf(tools: readonly ToolSchema[], tool: string, parameter: string): string[] | undefined {
  const schema = tools.find(({ function: { name } }) => name === tool)?.function.parameters;
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const property = Object.hasOwn(properties, parameter) ? properties[parameter] : undefined;
  return isObject(property) ? namedTypes(property) : undefined;
}

export function namedTypes(property: Record<string, unknown>): string[] | undefined {
  if (typeof property.type === 'string') return [property.type];
  if (Array.isArray(property.type)) return property.type.map(String);
  const options = [property.anyOf, property.oneOf].find(Array.isArray)?.filter(isObject);
  const types = options?.flatMap((option) => namedTypes(option) ?? []);
  if (types && types.length > 0) return types;
  if (Array.isArray(property.enum)) return [...new Set(property.enum.map((value) => typeof value))];
  return undefined;
}

/**
 * A value that a format writes as bare text, in the type the schema asks for. What does not fit stays text:
 * the tool's own check then says what is wrong with it.
 */
export function typedValue(text: string, types: readonly string[] | undefined): unknown {
  if (types === undefined) return text;
  if (text.trim().toLowerCase() === 'null' && !types.every((type) => isText(type))) return null;
  for (const type of types) {
    const value = readAs(text.trim(), type);
    if (value !== undefined) return value;
  }
  return text;
}

export const isText = (type: string) => /^(str|string|text|varchar|char|enum)/i.test(type);

function readAs(text: string, type: string): unknown {
  if (/^(int|uint|long|short|unsigned)/i.test(type))
    return /^[+-]?\d+$/.test(text) ? Number(text) : undefined;
  if (/^(num|float|double)/i.test(type))
    return text !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined;
  if (/^bool/i.test(type)) return { true: true, false: false }[text.toLowerCase()];
  if (/^(obj|dict|arr|list|sequence)/i.test(type))
    return jsonOrLiteral(text, (value) => typeof value === 'object');
  return undefined;
}

function jsonOrLiteral(text: string, isWanted: (value: unknown) => boolean): unknown {
  const read = readValue(text);
  return read && isWanted(read.value) ? read.value : undefined;
}

function readValue(text: string): { readonly value: unknown } | undefined {
  const json = readJson(text);
  return 'value' in json ? json : readLiteral(text);
}

/** JSON, a Python literal, or the text itself, where no schema says which. */
export function jsonOrLiteralOrText(text: string): unknown {
  const read = readValue(text);
  return read ? read.value : text;
}

/** For formats that write strings bare and everything else as JSON. */
export function jsonOrText(text: string, types: readonly string[] | undefined): unknown {
  if (types?.every((type) => isText(type))) return text;
  const json = readJson(text.trim());
  return 'value' in json ? json.value : typedValue(text, types);
}

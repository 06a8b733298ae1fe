import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { nearest } from './nearest.ts';

/**
 * A setting is a zod schema with a default and a reason. What would be right in place of a wrong value stands beside
 * the schema, in our words: an error never repeats zod's.
 */
export type Setting = z.ZodDefault;
export type Settings = Readonly<Record<string, Setting>>;
export type Values<S extends Settings> = { readonly [K in keyof S]: z.output<S[K]> };

const RIGHT = z.registry<{ right: string }>();

/** `kind(z.string(), 'use text')` */
export function kind<S extends z.ZodType>(schema: S, right: string): S {
  RIGHT.add(schema, { right });
  return schema;
}

export function setting<S extends z.ZodType>(
  schema: S,
  usual: z.util.NoUndefined<z.output<S>>,
  reason: string,
): z.ZodDefault<S> {
  return schema.default(usual).describe(reason);
}

export const text = kind(z.string(), 'use text');
export const flag = kind(z.boolean(), 'use true or false');
export const number = kind(z.number(), 'use a number');
export const atLeast = (least: number) => kind(z.number().gte(least), `use a number of ${least} or more`);
export const above = (bound: number) => kind(z.number().gt(bound), `use a number above ${bound}`);
export const between = (least: number, most: number) =>
  kind(z.number().gte(least).lte(most), `use a number from ${least} to ${most}`);
export const share = between(0, 1);
export const wholeFrom = (least: number) =>
  kind(z.number().int().gte(least), `use a whole number of ${least} or more`);
export const oneOf = <const V extends readonly string[]>(...values: V) =>
  kind(z.enum(values), `use one of ${values.map((value) => JSON.stringify(value)).join(', ')}`);
export const aboveOrInfinity = (bound: number) =>
  kind(z.union([z.number().gt(bound), z.literal(Number.POSITIVE_INFINITY)]), `use a number above ${bound}`);
export const wholeOrInfinity = (least: number) =>
  kind(
    z.union([z.number().int().gte(least), z.literal(Number.POSITIVE_INFINITY)]),
    `use a whole number of ${least} or more`,
  );
export const texts = kind(z.array(z.string()).readonly(), 'use a list of text');
export const mapping = kind(z.record(z.string(), z.unknown()).readonly(), 'use a mapping');
export const mappings = kind(
  z.array(z.record(z.string(), z.unknown()).readonly()).readonly(),
  'use a list of mappings',
);
/** Null is as if it were not given. */
export const orNull = <S extends z.ZodType>(schema: S) =>
  kind(schema.nullable(), `${wrongValue(schema)}, or null`);

export const usualOf = (schema: Setting): unknown => schema.def.defaultValue;
export const reasonOf = (schema: Setting): string => schema.description ?? '';

/** What is wrong with a value, or undefined. */
export function wrongWith(schema: Setting, value: unknown): string | undefined {
  return schema.safeParse(value).success ? undefined : rightOf(schema);
}

/** What would be right: `use a number above 0`. */
export function rightOf(schema: Setting): string {
  const inner = schema.def.innerType;
  return inner instanceof z.ZodType ? wrongValue(inner) : 'use another value';
}

/** The same of a schema without a default. */
export const wrongValue = (schema: z.ZodType): string => RIGHT.get(schema)?.right ?? 'use another value';

/** The value, or the default where there is none. */
export function readSetting<S extends Setting>(schema: S, value: unknown, path: string): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ConfigError(`${path} is ${shown(value)}; ${wrongWith(schema, value)}`);
}

export function valuesOf<S extends Settings>(
  settings: S,
  given: Readonly<Record<string, unknown>>,
  prefix = '',
): Values<S> {
  return Object.fromEntries(
    Object.entries(settings).map(([name, schema]) => [name, readSetting(schema, given[name], prefix + name)]),
  ) as Values<S>;
}

/** A value as an error shows it. */
export function shown(value: unknown): string {
  return typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
}

/** Settings in groups: `{ steps, limits: { turns } }`. */
export interface SettingTree {
  readonly [name: string]: Setting | SettingTree;
}
export type TreeValues<T> = {
  readonly [K in keyof T]: T[K] extends z.ZodType ? z.output<T[K]> : TreeValues<T[K]>;
};

export type TreeGiven<T> = {
  readonly [K in keyof T]?: (T[K] extends z.ZodType ? z.output<T[K]> : TreeGiven<T[K]>) | undefined;
};

export const isSetting = (entry: Setting | SettingTree): entry is Setting => entry instanceof z.ZodDefault;

/** Every setting by dotted path. */
export function leavesOf(tree: SettingTree, prefix = ''): [path: string, schema: Setting][] {
  return Object.entries(tree).flatMap(([name, entry]): [string, Setting][] =>
    isSetting(entry) ? [[prefix + name, entry]] : leavesOf(entry, `${prefix}${name}.`),
  );
}

/** What stands at a dotted path, or undefined. */
export function valueAt(tree: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>(
      (at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined),
      tree,
    );
}

/** The settings of a tree among other values. */
export function pickTree<T extends SettingTree>(tree: T, values: TreeValues<T>): TreeValues<T> {
  return Object.fromEntries(Object.keys(tree).map((name) => [name, values[name]])) as TreeValues<T>;
}

/** Every setting of a tree, given or default; throws with the path of what is wrong or unknown. */
export function readTree<T extends SettingTree>(
  tree: T,
  given: Readonly<Record<string, unknown>>,
  { path = '', alsoKnown = [] }: { readonly path?: string; readonly alsoKnown?: readonly string[] } = {},
): TreeValues<T> {
  for (const name of Object.keys(given)) {
    if (name in tree) continue;
    const known = [...Object.keys(tree), ...alsoKnown];
    throw new ConfigError(`unknown option ${path}${name}; did you mean ${path}${nearest(name, known)}?`);
  }
  const values = Object.entries(tree).map(([name, entry]) => {
    const value = given[name];
    if (isSetting(entry)) return [name, readSetting(entry, value, path + name)];
    if (value !== undefined && (typeof value !== 'object' || value === null)) {
      throw new ConfigError(`${path}${name} is ${shown(value)}; it is a group of options`);
    }
    return [name, readTree(entry, { ...value }, { path: `${path}${name}.` })];
  });
  return Object.fromEntries(values) as TreeValues<T>;
}

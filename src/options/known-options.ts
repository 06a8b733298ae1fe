import { z } from 'zod';
import * as schemas from '../lib/setting.ts';
import { OPTIONS } from '../options.ts';
import { isSetting, type Setting } from './setting.ts';
import { SETTINGS } from './settings.ts';

/** Every option of ours by dotted path: the plain ones of a run, and those of its parts. */
export const KNOWN_OPTIONS: ReadonlyMap<string, Setting<unknown>> = new Map([
  ...entriesOf(OPTIONS, ''),
  ...entriesOf(SETTINGS, ''),
]);

function entriesOf(table: object, prefix: string): [string, Setting<unknown>][] {
  return Object.entries(table).flatMap(([name, entry]: [string, object]): [string, Setting<unknown>][] => {
    if (entry instanceof z.ZodDefault) {
      const check = (value: unknown) => schemas.wrongWith(entry, value);
      return [[prefix + name, { default: schemas.usualOf(entry), reason: schemas.reasonOf(entry), check }]];
    }
    return isSetting(entry) ? [[prefix + name, entry]] : entriesOf(entry, `${prefix}${name}.`);
  });
}

/** Whether a path names a plain option, which a TypeScript run file may leave to the command line as well. */
export function isPlainOption(path: string): boolean {
  const [first] = path.split('.');
  return first !== undefined && first in OPTIONS;
}

/** What is wrong with a value for a path, or undefined. */
export function wrongWith(path: string, value: unknown): string | undefined {
  const known = KNOWN_OPTIONS.get(path);
  if (!known) return 'there is no such option';
  if (isPlainOption(path) && typeof value !== typeof known.default) {
    return `use a ${typeof known.default}, such as ${JSON.stringify(known.default)}`;
  }
  return known.check(value);
}

/** Options by path as one nested object, with the default of each that is not there. */
export function nestOptions(values: ReadonlyMap<string, unknown>): Record<string, unknown> {
  const nested: Record<string, unknown> = {};
  for (const [path, known] of KNOWN_OPTIONS) {
    setPath(nested, path, values.has(path) ? values.get(path) : known.default);
  }
  return nested;
}

export function setPath(target: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split('.');
  const last = names.pop()!;
  let at = target;
  for (const name of names) {
    at[name] = { ...(at[name] as Record<string, unknown> | undefined) };
    at = at[name] as Record<string, unknown>;
  }
  at[last] = value;
}

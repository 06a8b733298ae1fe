import { leavesOf, mapping, type Setting, type TreeValues, usualOf, wrongWith } from '../lib/setting.ts';
import type { DescribedAlgorithm } from '../training/algorithm-settings.ts';
import { PARTS } from './part-options.ts';
import { PLAIN, type PlainOptions } from './plain-options.ts';

/**
 * The one schema of options: types, defaults, reasons and checks. YAML, overrides, `rollcall options` and
 * docs/options.md are read from it, and verl's keys are a table of mappings onto it.
 */
const OPTIONS = { ...PLAIN, ...PARTS };

/** A run as data, every option set. */
export type DescribedRun = PlainOptions &
  TreeValues<Omit<typeof PARTS, 'algorithm'>> & { readonly algorithm: DescribedAlgorithm };

/** Every option by dotted path. */
export const KNOWN_OPTIONS: ReadonlyMap<string, Setting> = new Map(leavesOf(OPTIONS));

const MAPPINGS = [...KNOWN_OPTIONS].filter(([, { def }]) => def.innerType === mapping).map(([path]) => path);

/** The option that holds an entry given by its own path: `trainer.options` for `trainer.options.ranks`. */
export function mappingAround(path: string): string | undefined {
  return MAPPINGS.find((name) => path.startsWith(`${name}.`));
}

/** Whether a path is an option, or an entry of one that is a mapping. */
export function isOption(path: string): boolean {
  return KNOWN_OPTIONS.has(path) || mappingAround(path) !== undefined;
}

/** What is wrong with a value for a path, or undefined. Entries of a mapping are checked by the part that takes them. */
export function wrongWithOption(path: string, value: unknown): string | undefined {
  const known = KNOWN_OPTIONS.get(path);
  if (known) return wrongWith(known, value);
  return mappingAround(path) === undefined ? 'there is no such option' : undefined;
}

/** Options by path as one run, with the default of each that is not there. Values were checked before. */
export function runOf(values: ReadonlyMap<string, unknown>): DescribedRun {
  const run: Record<string, unknown> = {};
  for (const [path, schema] of KNOWN_OPTIONS) {
    setPath(run, path, values.has(path) ? values.get(path) : usualOf(schema));
  }
  for (const [path, value] of values) if (!KNOWN_OPTIONS.has(path)) setPath(run, path, value);
  return run as DescribedRun;
}

export function setPath(target: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split('.');
  const last = names.pop()!;
  let at = target;
  for (const name of names) {
    at[name] = { ...Object(at[name]) };
    at = at[name] as Record<string, unknown>;
  }
  at[last] = value;
}

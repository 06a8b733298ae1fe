import { existsSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { nearest } from '../lib/nearest.ts';
import { usualOf, valueAt } from '../lib/setting.ts';
import { checkMode } from '../modes/mode.ts';
import { type ReadingContext, shown, type VerlRow } from '../verl/row.ts';
import { VERL_TABLE } from '../verl/table.ts';
import { interpolate } from './interpolate.ts';
import { findMissing } from './missing.ts';
import { type Override, parseOverrides } from './overrides.ts';
import {
  type DescribedRun,
  isOption,
  KNOWN_OPTIONS,
  mappingAround,
  runOf,
  setPath,
  wrongWithOption,
} from './schema.ts';
import { type Leaf, readYamlLeaves } from './yaml-file.ts';

/**
 * The door: YAML, dotted overrides and verl's keys become our options, as data.
 *
 * Order: default < file < command line. In one place (one file, or one command line) the same option in both
 * vocabularies is an error. Every value is checked here, with where it was given.
 */
export interface RunRequest {
  /** A YAML file in either vocabulary, or both. */
  readonly file?: string;
  readonly overrides: readonly string[];
  /** Options of a recorded run, by dotted path, in place of a file. */
  readonly recorded?: Readonly<Record<string, unknown>>;
  readonly environment?: Readonly<Record<string, string | undefined>>;
  exists?(path: string): boolean;
}

/** A run described as data, with everything that was accepted, ignored or refused. */
export interface ResolvedRun {
  readonly options: DescribedRun;
  /** Our options that were set, each with the key under which it was given. */
  readonly given: ReadonlyMap<string, string>;
  /** The same options with their values: what `options.json` keeps. */
  readonly values: Readonly<Record<string, unknown>>;
  /** One line for each key that changes nothing here, and why. */
  readonly notes: readonly string[];
  /** What must exist outside for the run to start: files, servers, keys. */
  readonly missing: readonly string[];
  /** What this build cannot do; `train` does not start while there are any. */
  readonly refused: readonly string[];
}

type Place = 'file' | 'command line';
interface Given extends Leaf {
  readonly place: Place;
  /** Absent: our own vocabulary. */
  readonly row?: VerlRow;
}
interface Entry {
  readonly value: unknown;
  readonly from: Given;
}

/** Reads a run from YAML and overrides; verl's keys are understood. */
export async function resolveRun(request: RunRequest): Promise<ResolvedRun> {
  const environment = request.environment ?? process.env;
  const exists = request.exists ?? existsSync;
  const overrides = parseOverrides(request.overrides);
  const file = request.file
    ? await readYamlLeaves(request.file, isWholeValue)
    : recordedLeaves(request.recorded ?? {});
  const given = [
    ...withoutOverridden(interpolate(file, environment), overrides).map((leaf) => classify(leaf, 'file')),
    ...lastOfEach(overrides).map((leaf) => classify(leaf, 'command line')),
  ];
  const notes: string[] = [];
  const refused: string[] = [];
  const entries = new Map<string, Entry>();
  // What stands at a path was checked by its schema when it was put there.
  const option = ((path: string) => {
    const entry = entries.get(path);
    const known = KNOWN_OPTIONS.get(path);
    const whole = entry ? entry.value : known && usualOf(known);
    const inner = known ? [...entries].filter(([name]) => name.startsWith(`${path}.`)) : [];
    if (inner.length === 0) return whole;
    const merged: Record<string, unknown> = { ...Object(whole) };
    for (const [name, { value }] of inner) setPath(merged, name.slice(path.length + 1), value);
    return merged;
  }) as ReadingContext['option'];
  const isGiven = (key: string) => given.some((one) => one.key === key);

  const put = (path: string, value: unknown, from: Given) => {
    const before = entries.get(path) ?? entryOfMapping(entries, path);
    if (before && before.from.place !== from.place && before.from.place === 'command line') return;
    if (before?.from.place === from.place && before.value !== undefined)
      refuseClash(path, before, value, from);
    const wrong = wrongWithOption(path, value);
    if (wrong) {
      const meant = from.key === path ? '' : ` (our ${path})`;
      throw new ConfigError(`${from.where}: ${from.key} is ${shown(value)}${meant}; ${wrong}`);
    }
    for (const name of [...entries.keys()]) if (name.startsWith(`${path}.`)) entries.delete(name);
    entries.set(path, { value, from });
  };
  const read = (from: Given, row: VerlRow) => {
    const key = row.key.endsWith('.*') ? from.key.slice(row.key.length - 1) : from.key;
    const reading = withPlace(from, () => row.read(wordAsFlag(from, row), { option, isGiven, exists, key }));
    if (reading.note) notes.push(reading.note);
    if (reading.refuse) refused.push(reading.refuse);
    for (const [path, value] of Object.entries(reading.set ?? {})) put(path, near(path, value, from), from);
  };
  const near = (path: string, value: unknown, { place }: Given) =>
    place === 'file' && request.file !== undefined && PATHS.has(path)
      ? besideFile(value, request.file, exists)
      : value;

  for (const from of given) {
    if (!from.row) put(from.key, near(from.key, from.value, from), from);
    else if (!from.row.late) read(from, from.row);
  }
  for (const row of VERL_TABLE.filter(({ late }) => late)) {
    for (const from of given) if (from.row === row) read(from, row);
  }

  const options = runOf(new Map([...entries].map(([path, { value }]) => [path, value])));
  return {
    options,
    given: new Map([...entries].map(([path, { from }]) => [path, from.key])),
    values: Object.fromEntries([...entries].map(([path, { value }]) => [path, value])),
    notes,
    missing: findMissing(options, environment, exists),
    refused: [...refused, ...wrongMode(options), ...unusedOrder(options, entries)],
  };
}

/** JSON has no infinity: what it made null is left to its default. */
function recordedLeaves(recorded: Readonly<Record<string, unknown>>): Leaf[] {
  return Object.entries(recorded)
    .filter(([path, value]) => wrongWithOption(path, value) === undefined)
    .map(([key, value]) => ({ key, value, where: 'options.json' }));
}

/** Options that name files which a run reads. */
const PATHS = new Set([
  'model',
  'tasks.files',
  'validation.files',
  'agent.file',
  'agent.module',
  'tools.file',
  'tools.module',
  'users.file',
  'chat.template',
  'rewards.module',
]);

/** A file beside the YAML goes before one of the same name in the working directory. */
function besideFile(value: unknown, file: string, exists: (path: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((one) => besideFile(one, file, exists));
  if (typeof value !== 'string' || isAbsolute(value) || /^[~$]/.test(value)) return value;
  const beside = join(dirname(file), value);
  return exists(beside.split('#')[0]!) ? beside : value;
}

/** What a mapping that was given whole says for one of its entries. */
function entryOfMapping(entries: ReadonlyMap<string, Entry>, path: string): Entry | undefined {
  const mapping = mappingAround(path);
  const whole = mapping === undefined ? undefined : entries.get(mapping);
  return whole && { value: valueAt(whole.value, path.slice(mapping!.length + 1)), from: whole.from };
}

/**
 * In a file, verl reads `yes`, `no`, `on` and `off` as true and false: OmegaConf parses YAML 1.1. On a command line
 * Hydra takes them for text, which Python takes for true; here they are an error there.
 */
function wordAsFlag({ place, value }: Given, { samples }: VerlRow): unknown {
  const isWord = place === 'file' && typeof value === 'string' && /^(yes|no|on|off)$/i.test(value);
  const isFlag = samples.every((sample) => typeof sample === 'boolean');
  return isWord && isFlag ? /^(yes|on)$/i.test(value) : value;
}

function wrongMode({ mode, tasksPerStep }: DescribedRun): string[] {
  try {
    checkMode(mode, tasksPerStep);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Options of `order` and the kind that reads each. */
const READ_BY_ORDER: Readonly<Record<string, DescribedRun['order']['kind']>> = {
  'order.column': 'difficulty',
  'order.hardFirst': 'difficulty',
  'order.low': 'zone',
  'order.high': 'zone',
};

function unusedOrder({ order }: DescribedRun, entries: ReadonlyMap<string, Entry>): string[] {
  return Object.entries(READ_BY_ORDER).flatMap(([path, kind]) => {
    const entry = entries.get(path);
    if (entry === undefined || entry.value === null || order.kind === kind) return [];
    const { key, where } = entry.from;
    return [
      `${where === key ? key : `${where}: ${key}`} is ${shown(entry.value)}, which the order ${order.kind} does not read; it is for order.kind=${kind}`,
    ];
  });
}

/** Rows by key, and those that stand for everything below a key. */
const ROWS = new Map(VERL_TABLE.map((row) => [row.key, row]));
const SUBTREES = VERL_TABLE.filter((row) => row.key.endsWith('.*'))
  .map((row) => ({ prefix: row.key.slice(0, -1), row }))
  .sort((one, other) => other.prefix.length - one.prefix.length);

export function rowOf(key: string): VerlRow | undefined {
  return ROWS.get(key) ?? SUBTREES.find(({ prefix }) => key.startsWith(prefix))?.row;
}

/** A mapping that is a value, such as the arguments of a chat template, and not a group of options. */
function isWholeValue(key: string): boolean {
  const known = KNOWN_OPTIONS.get(key);
  if (known) return true;
  return (
    ROWS.get(key)?.samples.some(
      (sample) => typeof sample === 'object' && sample !== null && !Array.isArray(sample),
    ) ?? false
  );
}

function classify(leaf: Leaf, place: Place): Given {
  const row = rowOf(leaf.key);
  const isOurs = isOption(leaf.key);
  if (isOurs && !row) return { ...leaf, place };
  if (row) return { ...leaf, place, row };
  // `mode: asynchronous` beside `mode.staleness: 2`.
  if (typeof leaf.value === 'string' && KNOWN_OPTIONS.has(`${leaf.key}.kind`))
    return classify({ ...leaf, key: `${leaf.key}.kind` }, place);
  if (isGroup(leaf.key)) {
    if (isEmptyGroup(leaf.value)) return { ...leaf, place, row: NOTHING };
    const inside = [...KNOWN_OPTIONS.keys()].find((name) => name.startsWith(`${leaf.key}.`));
    throw new ConfigError(
      `${leaf.where}: ${leaf.key} is ${shown(leaf.value)}, but it is a group of options${inside ? `, such as ${inside}` : ''}`,
    );
  }
  const known = [...KNOWN_OPTIONS.keys(), ...ROWS.keys()];
  const first = nearest(leaf.key, known);
  const second = nearest(
    leaf.key,
    known.filter((name) => name !== first),
  );
  throw new ConfigError(
    `${leaf.where}: unknown option ${leaf.key}; the nearest known ones are ${first} and ${second}`,
  );
}

const isGroup = (key: string) =>
  [...KNOWN_OPTIONS.keys(), ...ROWS.keys()].some((known) => known.startsWith(`${key}.`));
const isEmptyGroup = (value: unknown) =>
  value === null || (typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0);
const NOTHING: VerlRow = {
  key: '',
  kind: 'no effect',
  to: [],
  values: '',
  note: '',
  samples: [null, null],
  beside: {},
  late: false,
  read: () => ({}),
};

/** On a command line the last word counts; `~name` says nothing itself. */
function lastOfEach(overrides: readonly Override[]): Leaf[] {
  const last = new Map<string, Leaf>();
  for (const override of overrides) {
    last.delete(override.key);
    if (override.kind === 'set') {
      last.set(override.key, { key: override.key, value: override.value, where: override.source });
    }
  }
  return [...last.values()];
}

/** What the command line sets or takes back is not read from the file at all. */
function withoutOverridden(leaves: readonly Leaf[], overrides: readonly Override[]): Leaf[] {
  const set = new Set(overrides.map(({ key }) => key));
  const unset = overrides.filter((override) => override.kind === 'unset');
  for (const { key, source } of unset) {
    if (!KNOWN_OPTIONS.has(key) && !rowOf(key) && !isGroup(key)) {
      throw new ConfigError(
        `${source}: unknown option ${key}; did you mean ${nearest(key, [...KNOWN_OPTIONS.keys(), ...ROWS.keys()])}?`,
      );
    }
  }
  return leaves.filter(
    (leaf) => !set.has(leaf.key) && !unset.some(({ key }) => leaf.key.startsWith(`${key}.`)),
  );
}

function refuseClash(path: string, before: Entry, value: unknown, from: Given): void {
  const one = before.from;
  if (Boolean(one.row) !== Boolean(from.row)) {
    throw new ConfigError(
      `${from.where}: ${from.key} and ${one.key} (${one.where}) are the same option, ${path}, in two vocabularies; give one`,
    );
  }
  if (one.key !== from.key && !from.row?.late && shown(before.value) !== shown(value)) {
    throw new ConfigError(
      `${from.where}: ${from.key} says ${path} is ${shown(value)}, but ${one.key} (${one.where}) says ${shown(before.value)}; give one`,
    );
  }
}

function withPlace<R>(from: Given, work: () => R): R {
  try {
    return work();
  } catch (error) {
    if (error instanceof ConfigError)
      throw new ConfigError(`${from.where}: ${error.message}`, { cause: error });
    throw new ConfigError(
      `${from.where}: ${from.key} is ${shown(from.value)}, which cannot be read: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { kind, number, wrongValue } from '../lib/setting.ts';

/** What a key's value means here. */
export interface Reading {
  /** Our options and their values. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** One line for the user: nothing is dropped in silence. */
  readonly note?: string;
  /** Why `train` will not start with it; `--dry-run` lists it. */
  readonly refuse?: string;
}

/** Types of the options that rows look at; the schema has checked them. */
interface ReadOptions {
  readonly tasksPerStep: number;
  readonly attemptsPerTask: number;
  readonly 'trainer.options': Readonly<Record<string, unknown>>;
}

export interface ReadingContext {
  /** An option as it stands: given, or its default. */
  option<P extends string>(path: P): P extends keyof ReadOptions ? ReadOptions[P] : unknown;
  /** Whether a key, ours or verl's, was given anywhere. */
  isGiven(key: string): boolean;
  exists(path: string): boolean;
  /** The key as it was given: of a row `a.b.*`, what stands for the star. */
  readonly key: string;
}

/**
 * One key of verl.
 *  option     sets options of ours
 *  always     Rollcall works like this anyway; another value is refused
 *  no effect  changes nothing here; one line says why, or what it would need
 *  not yet    understood, and refused by `train`
 */
export interface VerlRow {
  /** `a.b`, or `a.b.*` for everything below. */
  readonly key: string;
  readonly kind: 'option' | 'always' | 'no effect' | 'not yet';
  /** Our options, by path. */
  readonly to: readonly string[];
  readonly values: string;
  readonly note: string;
  /** Two values that mean different things, for the tests. */
  readonly samples: readonly [unknown, unknown];
  /** Keys to give beside it in the tests, where it means nothing alone. */
  readonly beside: Readonly<Record<string, unknown>>;
  /** Read after all others, in the order of the table: it looks at other options, or overrides other keys. */
  readonly late: boolean;
  read(value: unknown, context: ReadingContext): Reading;
}

export interface About {
  readonly note?: string;
  readonly values?: string;
  readonly samples?: readonly [unknown, unknown];
  readonly late?: boolean;
  readonly beside?: Readonly<Record<string, unknown>>;
}

/** Values of keys that are not a number, text or a flag. */
export const anything = z.unknown();
export const numbers = kind(z.array(z.number()).readonly(), 'use a list of numbers');
export const pair = kind(
  z.tuple([z.number(), z.number()]).readonly(),
  'use two numbers, such as [0.9, 0.999]',
);

/** Several options, or a value that needs thought. `takes` is what verl's value must be. */
export function means<S extends z.ZodType>(
  key: string,
  to: string | readonly string[],
  takes: S,
  samples: readonly [unknown, unknown],
  read: (value: z.output<S>, context: ReadingContext) => Readonly<Record<string, unknown>> | Reading,
  about: About = {},
): VerlRow {
  return {
    key,
    kind: 'option',
    to: typeof to === 'string' ? [to] : to,
    values: about.values ?? samples.map(shown).join(', '),
    note: about.note ?? '',
    samples,
    late: about.late ?? false,
    beside: about.beside ?? {},
    read: (value, context) => {
      const parsed = takes.safeParse(value);
      if (!parsed.success) throw new ConfigError(`${key} is ${shown(value)}; ${wrongValue(takes)}`);
      const meant = read(parsed.data, context);
      return isReading(meant) ? meant : { set: meant };
    },
  };
}

const isReading = (meant: object): meant is Reading => 'set' in meant || 'note' in meant || 'refuse' in meant;

/** The same value under our name; our option says what it must be. */
export function same(
  key: string,
  to: string,
  samples: readonly [unknown, unknown],
  about: About = {},
): VerlRow {
  return means(key, to, anything, samples, (value) => ({ [to]: value }), about);
}

/** verl counts the tasks of a mini-batch; here it is how many mini-batches a step has. */
export function miniBatchSize(key: string, to: string, about: About = {}): VerlRow {
  return means(
    key,
    to,
    number,
    [256, 64],
    (size, { option }) => {
      const tasks = option('tasksPerStep');
      if (size >= 1 && tasks % size === 0) return { [to]: tasks / size };
      throw new ConfigError(
        `${key} is ${size}, which does not divide the ${tasks} tasks of a step (data.train_batch_size)`,
      );
    },
    {
      note: 'in tasks; here the number of updates: train_batch_size / ppo_mini_batch_size',
      late: true,
      beside: { 'data.train_batch_size': 256 },
      ...about,
    },
  );
}

/** One of some words, each with its meaning. */
export function word(
  key: string,
  to: string,
  words: Readonly<Record<string, unknown>>,
  about: About = {},
): VerlRow {
  const known = Object.keys(words);
  return means(
    key,
    to,
    anything,
    [known[0], known.find((name) => words[name] !== words[known[0]!])],
    (value) => {
      const name = String(value);
      if (!known.includes(name))
        throw new ConfigError(`${key} is ${shown(value)}; use one of ${known.join(', ')}`);
      return { [to]: words[name] };
    },
    { values: known.join(', '), ...about },
  );
}

const row = (
  kind: VerlRow['kind'],
  key: string,
  values: string,
  note: string,
  samples: VerlRow['samples'],
  read: VerlRow['read'],
): VerlRow => ({ key, kind, to: [], values, note, samples, late: false, beside: {}, read });

/** Rollcall works like this anyway; the other value is refused. */
export function always(key: string, value: unknown, other: unknown, why: string): VerlRow {
  return row('always', key, shown(value), why, [value, other], (given) =>
    given === value || given === null
      ? { note: `${key}: always so here; ${why}` }
      : { refuse: `${key}=${shown(given)} is not possible here: ${why}` },
  );
}

/** Accepted whatever it is: it would not change a result, and one line says why, or what it would need. */
export function noEffect(key: string, why: string, samples: readonly [unknown, unknown]): VerlRow {
  return row('no effect', key, 'any', why, samples, (value) => ({
    note: `${key}=${shown(value)}: no effect: ${why}`,
  }));
}

/** Off is what we do; on is refused until it is built. */
export function notYet(key: string, off: unknown, on: unknown, what: string): VerlRow {
  return row('not yet', key, shown(off), what, [off, on], (value) =>
    value === off || value === null
      ? { note: `${key}=${shown(value)}: nothing to do` }
      : { refuse: `${key}=${shown(value)}: not yet: ${what}` },
  );
}

export function shown(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

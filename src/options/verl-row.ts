import { ConfigError } from '../errors.ts';

/** What a key's value means here. */
export interface Reading {
  /** Our options and their values. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** One line for the user: nothing is dropped in silence. */
  readonly note?: string;
  /** Why `train` will not start with it; `--dry-run` lists it. */
  readonly refuse?: string;
}

export interface ReadingContext {
  /** An option as it stands: given, or its default. */
  option(path: string): unknown;
  /** Whether a key, ours or verl's, was given anywhere. */
  isGiven(key: string): boolean;
  exists(path: string): boolean;
  /** The key as it was given: of a row `a.b.*`, what stands for the star. */
  readonly key: string;
}

/**
 * One key of verl or of a seed.
 *  option     sets options of ours
 *  always     Rollcall works like this anyway
 *  elsewhere  another program's business: accepted, with one line that says so
 *  not yet    understood, and refused by `train`
 */
export interface VerlRow {
  /** `a.b`, or `a.b.*` for everything below. */
  readonly key: string;
  readonly kind: 'option' | 'always' | 'elsewhere' | 'not yet';
  /** Our options, by path. */
  readonly to: readonly string[];
  readonly values: string;
  readonly note: string;
  /** The seeds that name it; none: it stands in the scripts that seeds run, or in verl's defaults. */
  readonly seeds: readonly string[];
  /** Two values that mean different things, for the tests. */
  readonly samples: readonly [unknown, unknown];
  /** Keys to give beside it in the tests, where it means nothing alone. */
  readonly beside: Readonly<Record<string, unknown>>;
  /** Read after all others, in the order of the table: it looks at other options, or goes before other keys. */
  readonly late: boolean;
  read(value: unknown, context: ReadingContext): Reading;
}

interface About {
  readonly seeds?: string;
  readonly note?: string;
  readonly values?: string;
  readonly samples?: readonly [unknown, unknown];
  readonly late?: boolean;
  readonly beside?: Readonly<Record<string, unknown>>;
}

const seedsOf = (about: About) => (about.seeds ? about.seeds.split(' ') : []);

/** Several options, or a value that needs thought. */
export function means(
  key: string,
  to: string | readonly string[],
  samples: readonly [unknown, unknown],
  read: (value: never, context: ReadingContext) => Readonly<Record<string, unknown>> | Reading,
  about: About = {},
): VerlRow {
  return {
    key,
    kind: 'option',
    to: typeof to === 'string' ? [to] : to,
    values: about.values ?? samples.map(shown).join(', '),
    note: about.note ?? '',
    seeds: seedsOf(about),
    samples,
    late: about.late ?? false,
    beside: about.beside ?? {},
    read: (value, context) => {
      const meant = read(value as never, context);
      const isReading = 'set' in meant || 'note' in meant || 'refuse' in meant;
      return isReading ? (meant as Reading) : { set: meant as Readonly<Record<string, unknown>> };
    },
  };
}

/** The same value under our name. */
export function same(
  key: string,
  to: string,
  samples: readonly [unknown, unknown],
  about: About = {},
): VerlRow {
  return means(key, to, samples, (value: unknown) => ({ [to]: value }), about);
}

/** verl counts the tasks of a mini-batch; here it is how many mini-batches a step has. */
export function miniBatchSize(key: string, to: string, about: About = {}): VerlRow {
  return means(
    key,
    to,
    [256, 64],
    (size: number, { option }) => ({
      [to]: Math.max(1, Math.ceil((option('tasksPerStep') as number) / size)),
    }),
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
    [known[0], known.find((name) => words[name] !== words[known[0]!])],
    (value: unknown) => {
      const name = String(value);
      if (!known.includes(name))
        throw new ConfigError(`${key} is ${shown(value)}; use one of ${known.join(', ')}`);
      return { [to]: words[name] };
    },
    { values: known.join(', '), ...about },
  );
}

/** Rollcall works like this anyway; the other value is refused. */
export function always(key: string, value: unknown, other: unknown, why: string, seeds = ''): VerlRow {
  return {
    key,
    kind: 'always',
    to: [],
    values: shown(value),
    note: why,
    seeds: seedsOf({ seeds }),
    samples: [value, other],
    late: false,
    beside: {},
    read: (given) =>
      given === value || given === null
        ? { note: `${key}: always so here; ${why}` }
        : { refuse: `${key}=${shown(given)} is not possible here: ${why}` },
  };
}

/** Accepted whatever it is, with one line that says whose business it is. */
export function elsewhere(
  key: string,
  whose: string,
  samples: readonly [unknown, unknown],
  seeds = '',
): VerlRow {
  return {
    key,
    kind: 'elsewhere',
    to: [],
    values: 'any',
    note: whose,
    seeds: seedsOf({ seeds }),
    samples,
    late: false,
    beside: {},
    read: (value) => ({ note: `${key}=${shown(value)}: ${whose}` }),
  };
}

/** Off is what we do; on is refused until it is built. */
export function notYet(key: string, off: unknown, on: unknown, what: string, seeds = ''): VerlRow {
  return {
    key,
    kind: 'not yet',
    to: [],
    values: shown(off),
    note: what,
    seeds: seedsOf({ seeds }),
    samples: [off, on],
    late: false,
    beside: {},
    read: (value) =>
      value === off || value === null
        ? { note: `${key}=${shown(value)}: nothing to do` }
        : { refuse: `${key}=${shown(value)}: not yet: ${what}` },
  };
}

export function shown(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

/** A run as a command line gives it: a run file (.ts), YAML, a script of verl's (.sh), overrides, or what a run recorded. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { ConfigError } from '../errors.ts';
import { assembleRun } from '../options/assemble.ts';
import { parseOverrides } from '../options/overrides.ts';
import { PLAIN } from '../options/plain-options.ts';
import { type ResolvedRun, resolveRun } from '../options/resolve-run.ts';
import type { RunSource, TrainOptions } from '../options.ts';
import type { Task } from '../types.ts';
import { readScript } from '../verl/script.ts';
import { loadRunFile } from './run-file.ts';

/** What was given: a file, overrides, and Hydra's two flags. */
export interface GivenWords {
  readonly file?: string | undefined;
  readonly overrides: readonly string[];
}

/** The values of a run. Close it: tool servers and files may be open. */
export interface GivenRun {
  readonly options: TrainOptions;
  close(): Promise<void>;
}

/** A word with `=` or `~` is an override; the other, at most one, is the file. */
export function splitWords(words: readonly string[]): GivenWords {
  const isOverride = (word: string) => /^[~+]|^[\w.@/-]+=/.test(word);
  const [file, ...others] = words.filter((word) => !isOverride(word));
  const overrides = words.filter((word) => isOverride(word) || others.includes(word));
  return { file, overrides };
}

/** Hydra's way to name a file: `--config-path DIR --config-name NAME`. */
export function hydraFile(path: string | undefined, name: string | undefined): string | undefined {
  if (path === undefined && name === undefined) return undefined;
  if (name === undefined)
    throw new ConfigError(`--config-path is ${path}; --config-name is needed beside it`);
  const file = join(path ?? '.', extname(name) === '' ? `${name}.yaml` : name);
  if (existsSync(file)) return file;
  throw new ConfigError(
    `there is no file ${file}; --config-path and --config-name name a YAML file of your keys, and defaults are ours`,
  );
}

/** Whether a word names a file that describes a run, as opposed to a directory or a model. */
export const isDescription = (word: string) => /\.(ya?ml|sh|m?[jt]s)$/.test(word);

export const isRunFile = (file: string | undefined): file is string =>
  file !== undefined && /\.m?[jt]s$/.test(file);

/** Words other than a run file, as options. A script's own words come before those of the command line. */
export async function resolveWords({ file, overrides }: GivenWords): Promise<ResolvedRun> {
  if (file === undefined || extname(file) !== '.sh')
    return resolveRun({ ...(file !== undefined && { file }), overrides });
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new ConfigError(`${file}: cannot be read: ${cause.code ?? cause.message}`, { cause });
  });
  const script = readScript(text, file, {
    environment: process.env,
    directory: process.cwd(),
    now: new Date(),
  });
  const config = hydraFile(script.configPath, script.configName);
  return resolveRun({
    ...(config !== undefined && { file: config }),
    overrides: [...script.overrides, ...overrides],
  });
}

/** Opens what the words describe. */
export async function openGivenRun(words: GivenWords): Promise<GivenRun> {
  if (isRunFile(words.file)) return openRunFile(words.file, words.overrides);
  return openDescribed(await resolveWords(words));
}

/** Opens a run again from what it recorded, with overrides. */
export async function openRecorded(config: RunSource, overrides: readonly string[]): Promise<GivenRun> {
  if ('path' in config) return openRunFile(config.path, overrides);
  return openDescribed(await resolveRun({ recorded: config.given, overrides }));
}

/** A run file passes values; overrides may change its plain options, its model and where it is kept. */
async function openRunFile(file: string, overrides: readonly string[]): Promise<GivenRun> {
  const given = await loadRunFile(file);
  return { options: { ...given, ...overridden(given, overrides) }, close: async () => {} };
}

/** Without trackers: only `train` logs. */
async function openDescribed(resolved: ResolvedRun): Promise<GivenRun> {
  for (const note of resolved.notes) console.error(note);
  const missing = resolved.missing.filter((line) => !/^(loggers|trace\.backend):/.test(line));
  refuse({ ...resolved, missing });
  const { options } = resolved;
  const quiet = { ...options, loggers: ['console'], trace: { ...options.trace, backend: null } };
  return assembleGiven({ ...resolved, options: quiet });
}

export async function assembleGiven(resolved: ResolvedRun): Promise<GivenRun> {
  const { options, close } = await assembleRun(resolved.options, {
    directory: process.cwd(),
    warn: console.error,
  });
  const config = { given: resolved.values };
  // A row is a task; agent and rewards of this run are given its rows only.
  return { options: { ...options, config } as unknown as TrainOptions<Task>, close };
}

export function refuse({ refused, missing }: Pick<ResolvedRun, 'refused' | 'missing'>): void {
  const hub = (line: string) => line.includes('looked for on the hub');
  const wrong = [...refused, ...missing.filter((line) => !hub(line))];
  if (wrong.length > 0)
    throw new ConfigError(`this run cannot start:\n${wrong.map((line) => `  ${line}`).join('\n')}`);
}

const CHANGEABLE = [...Object.keys(PLAIN), 'model', 'runDir'];

/** Overrides of a run file, merged group by group. */
function overridden(given: TrainOptions, overrides: readonly string[]): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const override of parseOverrides(overrides)) {
    if (override.kind === 'unset')
      throw new ConfigError(`${override.source}: a run file's options can be set, not removed`);
    const [group, ...rest] = override.key.split('.');
    if (!CHANGEABLE.includes(group!)) {
      throw new ConfigError(
        `${override.source}: a run file passes ${group} as code; overrides change ${CHANGEABLE.join(', ')}`,
      );
    }
    if (rest.length === 0) changes[group!] = override.value;
    else {
      const before = (changes[group!] ?? given[group as keyof TrainOptions] ?? {}) as object;
      changes[group!] = { ...before, [rest.join('.')]: override.value };
    }
  }
  return changes;
}

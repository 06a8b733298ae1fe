/** What a command needs of a run that was recorded, from whatever directory the command is started. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { loadModelFiles } from '../chat/model-files.ts';
import { ConfigError } from '../errors.ts';
import type { RunSource } from '../options.ts';
import { readLatestCheckpoint, runPaths } from '../watch/run-directory.ts';
import {
  type GivenRun,
  type GivenWords,
  isDescription,
  openGivenRun,
  openRecorded,
  splitWords,
} from './given-run.ts';
import type { Decode } from './print-trajectory.ts';

/** What `options.json` says about where a run came from. */
export interface RunOrigin {
  readonly model: string;
  readonly config: RunSource | null;
  readonly workingDirectory?: string;
  /** The validation set, in the folder of an evaluation; the settings of evaluations in that of a run. */
  readonly evaluation?: unknown;
}

export async function readOrigin(run: string): Promise<RunOrigin> {
  const { options } = runPaths(run);
  if (!existsSync(options)) throw new ConfigError(`${run} is not a run directory: it has no options.json`);
  return JSON.parse(await readFile(options, 'utf8')) as RunOrigin;
}

/** The run's newest checkpoint, or else the model it started from. */
export async function modelOf(run: string): Promise<string> {
  const { model } = await readOrigin(run);
  return (await readLatestCheckpoint(ownerOf(resolve(run)), 'sizes'))?.path ?? model;
}

/** Evaluations and forks are in folders of their run, which has the checkpoints. */
function ownerOf(run: string): string {
  const folder = dirname(run);
  return ['evaluations', 'forks'].includes(basename(folder)) && existsSync(runPaths(dirname(folder)).options)
    ? ownerOf(dirname(folder))
    : run;
}

/** By the tokenizer of the run's newest checkpoint, or else of the model it started from. */
export async function decoderOf(run: string): Promise<Decode> {
  const { tokenizer } = await loadModelFiles(await modelOf(run));
  return (ids) => tokenizer.decode(ids);
}

/** One at a time: the directory of this process is changed while a run file is loaded. */
let loading: Promise<unknown> = Promise.resolve();

/**
 * The run that `words` give (a run file, YAML or script, with overrides), or else the one that a run recorded, with those
 * overrides. Paths in what was recorded are relative to the directory in which the run was started, so this process goes
 * there; paths that the user gave must be resolved before.
 */
export function openRunOf(
  run: string | undefined,
  { file, overrides }: GivenWords = { overrides: [] },
): Promise<GivenRun> {
  const load = async () => {
    if (file !== undefined || run === undefined) return openGivenRun({ file, overrides });
    const { config, workingDirectory } = await readOrigin(run);
    const isGone = config !== null && 'path' in config && !existsSync(config.path);
    if (config === null || isGone) {
      const why = isGone
        ? `came from ${config.path}, which is gone`
        : 'does not say which run file it came from';
      throw new ConfigError(`${run} ${why}; name one with --config`);
    }
    if (workingDirectory !== undefined && existsSync(workingDirectory)) process.chdir(workingDirectory);
    return openRecorded(config, overrides);
  };
  const result = loading.catch(() => {}).then(load);
  loading = result;
  return result;
}

/** What a command's words name: a run or a model by its `path`, or else a run that a file or overrides describe. */
export function readNamed(
  first: string,
  overrides: readonly string[],
  config?: string,
): { readonly path: string | undefined; readonly words: GivenWords } {
  const described = splitWords([first, ...overrides]);
  if (config === undefined && (described.file === undefined || isDescription(described.file)))
    return { path: undefined, words: described };
  return { path: wholePath(first), words: { file: config, overrides } };
}

/** The run directory of what was named. */
export async function directoryOf({ path, words }: ReturnType<typeof readNamed>): Promise<string> {
  if (path !== undefined) return resolve(path);
  const { options, close } = await openGivenRun(words);
  await close();
  return resolve(options.runDir);
}

/** What a command names, as a whole path where there is such a file or folder: a model may also be a name on the hub. */
export const wholePath = (name: string) => (existsSync(name) ? resolve(name) : name);

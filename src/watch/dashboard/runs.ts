import { existsSync } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { ConfigError } from '../../errors.ts';
import { isMissing } from '../../lib/files.ts';
import { listEvaluations } from '../evaluation-store.ts';
import { runPaths } from '../run-directory.ts';
import { readRunState } from '../run-end.ts';
import { readStatus, statusLines } from '../run-status.ts';
import { listSteps, readStepIndex, type StepIndex } from '../trajectory-store.ts';
import type { Doing, ForkOrigin, MetricsView, RunSummary } from './api.ts';

const KEPT_INDEXES = 8;

/** A run directory that is shown. Nothing a browser sends becomes part of a path but whole numbers and hashes. */
export class WatchedRun {
  readonly id: string;
  readonly directory: string;
  /** The run that this fork or evaluation is of. */
  readonly parent: string | undefined;
  readonly #name: string;
  readonly #metrics: MetricsTail;
  readonly #indexes = new Map<number, { readonly mark: string; readonly index: Promise<StepIndex> }>();
  readonly #tasks = new Map<number, { readonly mark: string; readonly tasks: Set<number> }>();

  constructor(id: string, name: string, directory: string, parent?: string) {
    this.id = id;
    this.directory = directory;
    this.parent = parent;
    this.#name = name;
    this.#metrics = new MetricsTail(runPaths(directory).metrics);
  }

  async summary(now: number): Promise<RunSummary> {
    const paths = runPaths(this.directory);
    const options = await readJson(paths.options);
    // A damaged run is listed too; what is wrong with it is said where its metrics are asked for.
    const { steps, seconds } = await this.#metrics.read().catch(() => ({ steps: [], seconds: [] }));
    const written = await stat(paths.metrics).catch(() => undefined);
    const fork = (options['fork'] as ForkOrigin | undefined) ?? null;
    const isPart = this.parent !== undefined;
    const { state, reason } = isPart
      ? ({ state: 'finished', reason: null } as const)
      : await readRunState(this.directory, now);
    return {
      id: this.id,
      name: this.#name,
      state,
      reason,
      doing: state === 'finished' || state === 'stopped' ? null : await doing(this.directory, now),
      step: steps.at(-1) ?? (isPart ? (await listSteps(this.directory)).at(-1) : undefined) ?? null,
      plannedSteps: typeof options['steps'] === 'number' ? options['steps'] : null,
      seconds: seconds.at(-1) ?? null,
      metricsFile: written?.ino ?? null,
      model: basename(String(options['model'] ?? '')),
      algorithm: nameOf(options['algorithm']),
      agent: nameOf(options['agent']),
      rewards: Array.isArray(options['rewards']) ? options['rewards'].map(nameOf) : [],
      parent: this.parent ?? null,
      fork,
      evaluation: typeof options['evaluation'] === 'string' ? options['evaluation'] : null,
    };
  }

  async metrics(): Promise<MetricsView> {
    return { ...(await this.#metrics.read()), recorded: await listSteps(this.directory) };
  }

  /** Changes when there is something new to show. */
  async mark(): Promise<string> {
    const { metrics, trajectories, end } = runPaths(this.directory);
    return (await Promise.all([metrics, trajectories, end].map(markOf))).join(' ');
  }

  /** Changes whenever the run has told what it is doing. */
  statusMark(): Promise<string> {
    return markOf(runPaths(this.directory).status);
  }

  /** A step's index, or undefined. The newest few are kept until a resumed run writes the step again. */
  async index(step: number): Promise<StepIndex | undefined> {
    const mark = await markOf(this.#indexPath(step));
    const known = this.#indexes.get(step);
    this.#indexes.delete(step);
    const kept = known?.mark === mark ? known : { mark, index: readStepIndex(this.directory, step) };
    this.#indexes.set(step, kept);
    const oldest = this.#indexes.keys().next().value;
    if (this.#indexes.size > KEPT_INDEXES && oldest !== undefined) this.#indexes.delete(oldest);
    try {
      return await kept.index;
    } catch {
      this.#indexes.delete(step); // it may be written later
      return undefined;
    }
  }

  /** Steps in which a task was attempted. Indexes are read once, for their task numbers alone. */
  async stepsOfTask(task: number): Promise<number[]> {
    const found: number[] = [];
    for (const step of await listSteps(this.directory))
      if ((await this.#tasksOf(step)).has(task)) found.push(step);
    return found;
  }

  async #tasksOf(step: number): Promise<Set<number>> {
    const mark = await markOf(this.#indexPath(step));
    const known = this.#tasks.get(step);
    if (known?.mark === mark) return known.tasks;
    const text = await readFile(this.#indexPath(step), 'utf8');
    const tasks = new Set(Array.from(text.matchAll(/"taskIndex":(\d+)/g), ([, number]) => Number(number)));
    this.#tasks.set(step, { mark, tasks });
    return tasks;
  }

  #indexPath(step: number): string {
    return join(runPaths(this.directory).trajectories, `step_${step}.index.json`);
  }
}

/** Another one whenever a file was written to, replaced or removed. */
const markOf = (path: string): Promise<string> =>
  stat(path).then(
    ({ ino, size, mtimeMs }) => `${ino}:${size}:${mtimeMs}`,
    () => '',
  );

/** metrics.jsonl in columns, read on from where it was: a line is parsed once. */
class MetricsTail {
  readonly #path: string;
  /** The file's number: a resume takes out lines past the checkpoint, in a new file under the same name. */
  #ino = 0;
  #offset = 0;
  #steps: number[] = [];
  #seconds: number[] = [];
  #series: Record<string, (number | null)[]> = {};
  #reading: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  async read(): Promise<Omit<MetricsView, 'recorded'>> {
    this.#reading = this.#reading.catch(() => {}).then(() => this.#readOn());
    await this.#reading;
    return { steps: this.#steps, seconds: this.#seconds, series: this.#series };
  }

  async #readOn(): Promise<void> {
    const file = await open(this.#path, 'r').catch((error) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
    if (!file) return this.#startOver(0);
    try {
      const { ino, size } = await file.stat();
      if (ino !== this.#ino || size < this.#offset) this.#startOver(ino);
      if (size === this.#offset) return;
      const bytes = Buffer.alloc(size - this.#offset);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#offset);
      const end = bytes.subarray(0, bytesRead).lastIndexOf(10) + 1; // what follows is torn, or still being written
      for (const line of bytes.subarray(0, end).toString('utf8').split('\n'))
        if (line !== '') this.#add(line);
      this.#offset += end;
    } finally {
      await file.close();
    }
  }

  #startOver(ino: number): void {
    this.#ino = ino;
    this.#offset = 0;
    this.#steps = [];
    this.#seconds = [];
    this.#series = {};
  }

  #add(line: string): void {
    const { step, seconds, metrics } = JSON.parse(line) as {
      step: number;
      seconds: number;
      metrics: Record<string, number | null>;
    };
    if (this.#steps.includes(step)) return; // the evaluation before training may be repeated by a resume
    const at = this.#steps.push(step) - 1;
    this.#seconds.push(seconds);
    for (const [name, value] of Object.entries(metrics)) {
      this.#series[name] ??= new Array(at).fill(null);
      this.#series[name][at] = value === null ? null : Number(value.toPrecision(7));
    }
    for (const column of Object.values(this.#series)) if (column.length === at) column.push(null);
  }
}

/** The runs to show. Folders are looked through again, so that runs which begin later are shown too. */
export class WatchedRuns {
  readonly list: WatchedRun[] = [];
  /** Run directories, and folders that hold some. */
  readonly #paths: readonly string[];
  /** One search after the other: two at once would add the same run twice. */
  #finding: Promise<void> = Promise.resolve();

  private constructor(paths: readonly string[]) {
    this.#paths = paths;
  }

  /** Refuses a path that is no run directory and holds none. */
  static async open(paths: readonly string[]): Promise<WatchedRuns> {
    for (const path of paths) {
      if (isRun(path) || (await runsIn(path)).length > 0) continue;
      throw new ConfigError(
        `${path} is not a run directory (it has no options.json) and contains none; give the folder a run was written to`,
      );
    }
    const runs = new WatchedRuns(paths.map((path) => resolve(path)));
    await runs.find();
    return runs;
  }

  /** Adds the runs, forks and evaluations that are not in the list yet. */
  find(): Promise<void> {
    this.#finding = this.#finding.then(() => this.#find()).catch(() => {}); // a folder that went meanwhile
    return this.#finding;
  }

  async #find(): Promise<void> {
    const known = new Set(this.list.map(({ directory }) => directory));
    const add = (directory: string, name: string, parent?: string) => {
      if (known.has(directory)) return;
      known.add(directory);
      this.list.push(new WatchedRun(freeId(name, this.list), name, directory, parent));
    };
    for (const path of this.#paths) {
      for (const directory of isRun(path) ? [path] : await runsIn(path)) add(directory, basename(directory));
    }
    // Grows while it is walked: an evaluation may have forks.
    for (const { directory: run, id } of this.list) {
      const base = basename(run);
      for (const directory of await listEvaluations(run))
        add(directory, `${base} evaluation ${decodeURIComponent(basename(directory))}`, id);
      for (const directory of await runsIn(join(run, 'forks')))
        add(directory, `${base} ${basename(directory)}`, id);
    }
  }
}

async function doing(directory: string, now: number): Promise<Doing | null> {
  const status = await readStatus(directory);
  if (!status) return null;
  const { step, waits, failures, at } = status;
  return { step, waits, failures, lines: statusLines(status), secondsAgo: (now - Date.parse(at)) / 1000 };
}

async function runsIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .sort()
    .map((name) => join(folder, name))
    .filter(isRun);
}

function freeId(name: string, runs: readonly WatchedRun[]): string {
  const plain = name.replaceAll(/[^\w.-]+/g, '-') || 'run';
  let id = plain;
  for (let number = 2; runs.some((run) => run.id === id); number++) id = `${plain}-${number}`;
  return id;
}

const isRun = (directory: string) => existsSync(runPaths(directory).options);

async function readJson(path: string): Promise<Record<string, unknown>> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;
  } catch {
    return {}; // a run that is only now being made, or a damaged one: show what there is
  }
}

function nameOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return String((value as { name?: unknown } | undefined)?.name ?? '');
}

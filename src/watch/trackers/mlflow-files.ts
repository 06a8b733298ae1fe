/**
 * MLflow's folder of files (`./mlruns`), which needs no Python to write: a folder for each experiment, in it one for each
 * run; a parameter or a tag is a file with its value, a metric a file with a line "time value step" for each step.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { statSync } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { homedir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parse, stringify } from 'yaml';
import { isMissing, replaceFile } from '../../lib/files.ts';
import type { MlflowRun, MlflowRuns, MlflowStatus } from './mlflow-runs.ts';

const STATUS: Readonly<Record<MlflowStatus, number>> = { RUNNING: 1, FINISHED: 3, KILLED: 5 };
/** MLflow's number for a program that is not a notebook, a project or a job of its own. */
const SOURCE_LOCAL = 4;

/** `file:///absolute`, `file:relative`, `./relative`, `~/of-home`. */
function folderOf(uri: string): string {
  if (uri.startsWith('file://')) return fileURLToPath(uri);
  return resolve(uri.replace(/^file:/, '').replace(/^~(?=\/|$)/, homedir()));
}

async function readMeta(folder: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    return parse(await readFile(join(folder, 'meta.yaml'), 'utf8')) as Readonly<Record<string, unknown>>;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

const writeMeta = (folder: string, meta: object) => replaceFile(join(folder, 'meta.yaml'), stringify(meta));

/** The names of what lies below a folder, with slashes. */
async function namesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
}

async function write(path: string, text: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

/**
 * Where a metric is kept. `tools/problems` cannot be a file while `tools/problems/bad-json` lies below it, so the later of
 * two such names gets a dot: `tools/problems.bad-json`, or `tools/problems.all`.
 */
function metricFile(folder: string, name: string): string {
  const file = join(folder, name);
  for (let at = name.indexOf('/'); at >= 0; at = name.indexOf('/', at + 1)) {
    if (statSync(join(folder, name.slice(0, at)), { throwIfNoEntry: false })?.isFile())
      return join(folder, `${name.slice(0, at)}.${name.slice(at + 1).replaceAll('/', '.')}`);
  }
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() ? `${file}.all` : file;
}

/** MLflow reads these words of Python's. */
const numberText = (value: number) =>
  Number.isFinite(value) ? String(value) : Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';

async function newestValue(file: string): Promise<number> {
  const last = (await readFile(file, 'utf8')).trimEnd().split('\n').at(-1)!;
  return Number(last.split(' ')[1]);
}

export function mlflowFiles(uri: string): MlflowRuns {
  const root = folderOf(uri);
  const folder = ({ experimentId, runId }: Pick<MlflowRun, 'experimentId' | 'runId'>) =>
    join(root, experimentId, runId);
  const addExperiment = async (id: string, name: string) => {
    const place = join(root, id);
    await mkdir(place, { recursive: true });
    const time = Date.now();
    await writeMeta(place, {
      artifact_location: pathToFileURL(place).href,
      creation_time: time,
      experiment_id: id,
      last_update_time: time,
      lifecycle_stage: 'active',
      name,
    });
    return id;
  };
  return {
    experimentId: async (name) => {
      await mkdir(join(root, '.trash'), { recursive: true });
      const ids = (await readdir(root)).filter((one) => /^\d+$/.test(one));
      if (!ids.includes('0')) await addExperiment('0', 'Default'); // MLflow expects it
      for (const id of ids) if ((await readMeta(join(root, id)))?.['name'] === name) return id;
      return await addExperiment(String(randomInt(10 ** 12, 2 ** 47)), name);
    },
    create: async ({ experimentId, name, startTime, tags }) => {
      const runId = randomBytes(16).toString('hex');
      const place = folder({ experimentId, runId });
      for (const part of ['metrics', 'params', 'tags', 'artifacts']) {
        await mkdir(join(place, part), { recursive: true });
      }
      const run = { runId, experimentId, artifactUri: pathToFileURL(join(place, 'artifacts')).href };
      const user = userInfo().username;
      await writeMeta(place, {
        artifact_uri: run.artifactUri,
        end_time: null,
        entry_point_name: '',
        experiment_id: experimentId,
        lifecycle_stage: 'active',
        run_id: runId,
        run_name: name,
        run_uuid: runId,
        source_name: '',
        source_type: SOURCE_LOCAL,
        source_version: '',
        start_time: startTime,
        status: STATUS.RUNNING,
        tags: [],
        user_id: user,
      });
      for (const [key, value] of Object.entries({ ...tags, 'mlflow.runName': name, 'mlflow.user': user })) {
        await write(join(place, 'tags', key), value);
      }
      return run;
    },
    find: async (known) => {
      const place = folder(known);
      const meta = await readMeta(place);
      if (meta === undefined) return undefined;
      const names = await namesBelow(join(place, 'metrics'));
      const values = await Promise.all(names.map((name) => newestValue(join(place, 'metrics', name))));
      return {
        run: { ...known, artifactUri: String(meta['artifact_uri']) },
        params: new Set(await namesBelow(join(place, 'params'))),
        metrics: new Map(names.map((name, at) => [name, values[at]!])),
      };
    },
    addParams: async (run, params) => {
      for (const { key, value } of params) await write(join(folder(run), 'params', key), value);
    },
    addMetrics: async (run, metrics) => {
      const lines = new Map<string, string>();
      for (const { key, value, timestamp, step } of metrics) {
        lines.set(key, `${lines.get(key) ?? ''}${timestamp} ${numberText(value)} ${step}\n`);
      }
      for (const [key, text] of lines) {
        const file = metricFile(join(folder(run), 'metrics'), key);
        await mkdir(dirname(file), { recursive: true });
        await appendFile(file, text);
      }
    },
    setTag: (run, key, value) => write(join(folder(run), 'tags', key), value),
    putArtifact: (run, name, body) => write(join(folder(run), 'artifacts', name), body),
    setStatus: async (run, status) => {
      const meta = await readMeta(folder(run));
      const end = status === 'RUNNING' ? null : Date.now();
      await writeMeta(folder(run), { ...meta, status: STATUS[status], end_time: end });
    },
  };
}

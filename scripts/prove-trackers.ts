/**
 * Sends a real run to the real readers and compares what they say with metrics.jsonl. `--quick` changes nothing.
 * MLflow's own server and client, TensorBoard's reader and the `wandb` package are installed from PyPI into a
 * temporary environment (or taken from ROLLCALL_TRACKERS_VENV); `weave` into ~/.cache/rollcall/weave.
 *
 *   npm run prove trackers [-- --only weave,images,trackers]
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { agent, arrayDataset, embedded, reward, type StepReport, train } from 'rollcall';
import { mlflow, mlflowTraces, tensorboard, wandb } from 'rollcall/trackers';
import { tinyModel } from '../test/tiny-model.ts';
import { type WandbState, wandbStandIn } from '../test/trackers-stand-ins.ts';
import { readFlags } from './flags.ts';
import { proveImages } from './trackers/images.ts';
import { compareWeave } from './trackers/weave.ts';
import { conclude, holds } from './verdict.ts';

type Letter = { letter: string };
const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'rollcall-prove-trackers-'));
const results: Record<string, boolean> = {};

function check(name: string, holds: boolean): void {
  results[name] = holds;
  console.log(holds ? 'ok     ' : 'FAILED ', name);
}

const { only } = readFlags({ only: 'weave,images,trackers' }, {});
const weave = only.includes('weave') ? await compareWeave(check) : undefined;
const bin = only === 'weave' ? '' : join(await environment(), 'bin');
if (only.includes('images')) await proveImages(bin, folder, check);
if (!only.includes('trackers')) {
  conclude(aims(), { versions: [weave] });
  process.exit();
}

const versions = (await run(join(bin, 'pip'), ['list', '--format=freeze'])).stdout.match(
  /^(mlflow|tensorboard|wandb)==.+$/gm,
)!;
console.log(versions.join('  '));
const port = await freePort();
const uri = `http://127.0.0.1:${port}`;
const server = startMlflow(port, join(folder, 'mlflow.db'), join(folder, 'artifacts'));
const key = 'a'.repeat(40);
const bias = await wandbStandIn(key);
try {
  await answers(`${uri}/health`);
  await prove();
} finally {
  await stop(server);
  await bias.close();
}
conclude(aims(), { versions: [...versions, weave] });

function aims() {
  return Object.entries(results).map(([name, passed]) => holds(name, passed));
}

async function prove(): Promise<void> {
  const runDir = join(folder, 'run');
  const board = join(folder, 'board');
  const names = { project: 'proof', experiment: 'letters' };
  const reports: StepReport<Letter>[] = [];
  const local = { PATH: bin };
  const stores = { folder: `file://${folder}/mlruns`, database: `sqlite:///${folder}/local.db` };
  const online = { WANDB_API_KEY: key, WANDB_BASE_URL: bias.url };
  const options = {
    model: await tinyModel(),
    tasks: arrayDataset(['a', 'b', 'c', 'd'].map((letter) => ({ letter }))),
    validation: arrayDataset([{ letter: 'e' }]),
    agent: agent<Letter>(async ({ task, model }) => {
      const chat = model.chat();
      chat.user(task.letter);
      await chat.sample();
      chat.user('again');
      await chat.sample();
    }),
    rewards: [reward<Letter>('length', ({ trajectory }) => trajectory.text.length / 12)],
    ...embedded({ threads: 1 }),
    tasksPerStep: 4,
    attemptsPerTask: 4,
    evaluation: { every: 1 },
    checkpoints: { every: 1 },
    limits: { tokensPerReply: 12 },
    runDir,
  };
  const trackers = () => [
    tensorboard({ directory: board }),
    mlflow({ ...names, uri }),
    mlflowTraces({ ...names, uri, text: true }),
    mlflow({ ...names, uri: stores.folder }),
    mlflow({ ...names, uri: stores.database, environment: local }),
    mlflowTraces({ ...names, uri: stores.database, environment: local, text: true }),
    wandb({ ...names, environment: online }),
    wandb({ ...names, environment: { WANDB_MODE: 'offline', WANDB_DIR: folder } }),
  ];
  for await (const report of train({ ...options, steps: 4, trackers: trackers() })) {
    reports.push(report);
    if (report.step === 2) break;
  }
  for await (const report of train({ ...options, steps: 4, trackers: trackers(), resume: true }))
    reports.push(report);
  const told = reports.flatMap(({ notices }) => notices).filter((notice) => notice.includes('tracker'));
  check('no tracker was in trouble', told.length === 0);
  for (const notice of told) console.log(notice);

  const lines = readFileSync(join(runDir, 'metrics.jsonl'), 'utf8').trim().split('\n').map(parseLine);
  const read = async (place: string) => {
    const env = { ...process.env, MLFLOW_ALLOW_FILE_STORE: 'true' };
    const words = ['scripts/prove-trackers.py', place, board];
    const { stdout } = await run(join(bin, 'python'), words, { maxBuffer: 1 << 28, env });
    return JSON.parse(stdout) as Seen;
  };
  const seen = await read(uri);
  const flowName = (name: string) => name.replaceAll('@', '_at_');
  check('MLflow has one run, finished', seen.mlflow.runs === 1 && seen.mlflow.status === 'FINISHED');
  check('MLflow has every metric of every step', equal(seen.mlflow.metrics, byName(lines, flowName)));
  check('MLflow has the options', seen.mlflow.params['limits/tokensPerReply'] === '12');
  check(
    'MLflow has the artefacts',
    seen.mlflow.artifacts['metrics.jsonl'] === readFileSync(join(runDir, 'metrics.jsonl'), 'utf8'),
  );
  for (const [kind, place] of Object.entries(stores)) {
    const { mlflow: kept } = kind === 'folder' ? await read(place) : await readDatabase(read);
    check(
      `MLflow opens the local ${kind}: one run, every metric of every step, options and artefacts`,
      kept.runs === 1 &&
        kept.status === 'FINISHED' &&
        equal(dotted(kept.metrics), dotted(seen.mlflow.metrics)) &&
        equal(kept.params, seen.mlflow.params) &&
        equal(kept.artifacts, seen.mlflow.artifacts),
    );
    if (kind === 'database') {
      const texts = kept.traces.filter(({ spans }) => spans.some(({ outputs }) => outputs !== ''));
      check(
        '… and of the database every trace, with text, linked to the run',
        kept.traces.length === seen.mlflow.traces.length &&
          texts.length === kept.traces.length &&
          kept.traces.every(({ run: of }) => of === kept.runId),
      );
    }
  }
  const attempts = reports.flatMap(({ groups }) => groups.flatMap((group) => group.attempts));
  const isEvaluation = ({ tags }: Seen['mlflow']['traces'][number]) => tags['validate'] === 'true';
  const measured = seen.mlflow.traces.filter(isEvaluation);
  const trained = seen.mlflow.traces.filter((trace) => !isEvaluation(trace));
  check('MLflow has a trace per trajectory', trained.length === attempts.length && attempts.length === 64);
  check(
    'and one per attempt of each evaluation, with the reward that its metric says',
    equal(
      measured.map(({ tags, reward: value }) => [Number(tags['step']), value]).sort(([a], [b]) => a! - b!),
      lines.map(({ step, metrics }) => [step, metrics['val-core/validation/reward/mean@1']!]),
    ),
  );
  const sound = attempts.every(
    ({ trajectory: { id, step, taskIndex, attempt, turns, segments }, reward: value }) => {
      const trace = seen.mlflow.traces.find(({ trajectory }) => trajectory === id);
      const chats = trace?.spans.filter(({ type }) => type === 'CHAT_MODEL') ?? [];
      return (
        trace?.tags['step'] === String(step) &&
        trace.tags['sample_index'] === String(taskIndex) &&
        trace.tags['rollout_n'] === String(attempt) &&
        trace.run === seen.mlflow.runId &&
        trace.reward === value &&
        equal(
          chats.map(({ ids }) => ids),
          turns.map(({ segment, start, end }) => [...segments[segment]!.ids.subarray(start, end)]),
        ) &&
        chats.every(({ outputs }) => outputs.length > 0)
      );
    },
  );
  check('its traces have step, sample, attempt, reward, run, and the sampled tokens of every turn', sound);
  check(
    'TensorBoard reads every metric of every step, the resumed ones once',
    equal(seen.tensorboard, byName(lines, String, Math.fround)),
  );

  const steps = ({ runs }: WandbState) =>
    [...runs.values()].map(({ history }) => history.map((row) => JSON.parse(row)));
  const rows = (all: unknown[]) =>
    lines.every(({ step, metrics }, at) => includes(all[at], { ...metrics, _step: step }));
  const [sent] = steps(bias.state);
  check(
    'the W&B stand-in got every row once, of a run that was resumed',
    sent?.length === lines.length && rows(sent),
  );

  bias.state.runs.clear();
  const offline = readdirSync(join(folder, 'wandb')).map((name) => join(folder, 'wandb', name));
  for (const directory of offline) {
    const env = { ...process.env, ...online };
    await run(join(bin, 'wandb'), ['sync', directory], { env, cwd: folder, timeout: 120_000 });
  }
  const synced = steps(bias.state).flat();
  check(
    '`wandb sync` reads the offline files and uploads every row',
    synced.length === lines.length && rows(synced),
  );
  const summary = [...bias.state.runs.values()].at(-1)!.summary;
  check('… and the newest value of each metric', includes(JSON.parse(summary), lines.at(-1)!.metrics));

  const exported = await run(process.execPath, [
    'bin/rollcall.js',
    'export',
    runDir,
    '--project',
    'exported',
    '--to',
    `mlflow=${uri}`,
    '--traces',
  ]);
  check(
    'rollcall export sends the run and its traces',
    /5 steps sent[\s\S]*69 traces sent/.test(exported.stderr),
  );
}

/** As `mlflow ui` opens it afterwards. */
async function readDatabase(read: (place: string) => Promise<Seen>): Promise<Seen> {
  const at = await freePort();
  const later = startMlflow(at, join(folder, 'local.db'), join(folder, 'mlartifacts'));
  try {
    await answers(`http://127.0.0.1:${at}/health`);
    return await read(`http://127.0.0.1:${at}`);
  } finally {
    await stop(later);
  }
}

interface Seen {
  readonly mlflow: {
    readonly runs: number;
    readonly runId: string;
    readonly status: string;
    readonly metrics: Series;
    readonly params: Readonly<Record<string, string>>;
    readonly artifacts: Readonly<Record<string, string>>;
    readonly traces: readonly {
      readonly trajectory: string;
      readonly reward: number;
      readonly run: string;
      readonly tags: Readonly<Record<string, string>>;
      readonly spans: readonly {
        readonly type: string;
        readonly ids: readonly number[];
        readonly outputs: string;
      }[];
    }[];
  };
  readonly tensorboard: Series;
}

/** By metric name: pairs of step and value, in order of step. */
type Series = Readonly<Record<string, readonly (readonly [number, number])[]>>;
type Line = { readonly step: number; readonly metrics: Readonly<Record<string, number>> };

function parseLine(text: string): Line {
  return JSON.parse(text) as Line;
}

function byName(
  lines: readonly Line[],
  rename: (name: string) => string,
  round = (value: number) => value,
): Series {
  const series: Record<string, [number, number][]> = {};
  for (const { step, metrics } of lines) {
    for (const [name, value] of Object.entries(metrics)) {
      series[rename(name)] = [...(series[rename(name)] ?? []), [step, round(value)]];
    }
  }
  return series;
}

/** In a folder a name that begins another's is kept with dots. */
function dotted(series: Series): Series {
  const names = Object.entries(series);
  return Object.fromEntries(
    names.map(([name, points]) => [name.replaceAll('/', '.').replace(/\.all$/, ''), points]),
  );
}

function equal(left: unknown, right: unknown): boolean {
  const sorted = (value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return JSON.stringify(sorted(left)) === JSON.stringify(sorted(right));
}

function includes(row: unknown, values: Readonly<Record<string, number>>): boolean {
  return Object.entries(values).every(([name, value]) => (row as Record<string, number>)[name] === value);
}

async function environment(): Promise<string> {
  const given = process.env['ROLLCALL_TRACKERS_VENV'];
  if (given !== undefined && existsSync(join(given, 'bin/mlflow'))) return given;
  const made = join(folder, 'venv');
  console.log(`installing mlflow, tensorboard and wandb into ${made}`);
  await run('python3', ['-m', 'venv', made]);
  await run(join(made, 'bin/pip'), ['install', '-q', 'mlflow', 'tensorboard', 'wandb'], { timeout: 900_000 });
  return made;
}

function startMlflow(at: number, database: string, artifacts: string): ChildProcess {
  const store = ['--backend-store-uri', `sqlite:///${database}`, '--artifacts-destination', artifacts];
  const words = ['server', '--host', '127.0.0.1', '--port', String(at), '--workers', '1', ...store];
  return spawn(join(bin, 'mlflow'), words, { stdio: 'ignore', detached: true, cwd: folder });
}

/** Ends the whole process group, because the server starts workers. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  process.kill(-child.pid, 'SIGTERM');
  await ended;
}

async function answers(url: string): Promise<void> {
  for (const began = Date.now(); Date.now() - began < 180_000; ) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error(`${url} did not answer within three minutes`);
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port: free } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return free;
}

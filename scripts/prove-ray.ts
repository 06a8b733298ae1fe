/**
 * A run on a real Ray cluster: three raylets on this machine, two replicas, a PyTorch trainer of two ranks.
 * `npm run prove ray [-- --stages same,kills,head,stop,apart,vllm]`:
 * `same`: the calculator's short run earns the same rewards as in one process;
 * `kills`: SIGKILL of a replica, a rank, a raylet and the control plane at random moments, and nothing is lost;
 * `head`: SIGKILL of the head's raylet, which ends the job; `launch --resume` continues it on a new cluster;
 * `stop`: `launch stop` leaves nothing behind;
 * `apart`: nodes that share no disk, one replica killed; `vllm`: the same with two real vLLM servers on the CPU.
 * The moments are random by `--seed`.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { realClock, sleep } from '../src/lib/clock.ts';
import { createRandom } from '../src/lib/random.ts';
import { checkEnvironment, defaultPython, installEnvironment } from '../src/torch/environment.ts';
import { readFlags } from './flags.ts';
import { type ClusterOptions, installRay, RayNodes } from './ray/cluster.ts';
import { type Curve, curveOf, type Ended, launch, rollcall } from './ray/launched.ts';
import { writeProject } from './ray/project.ts';
import { smallModels } from './servers/models.ts';
import { install, REAL_SERVERS } from './servers/real-server.ts';
import { warmStart } from './short-run.ts';
import { type Aim, atMost, conclude, holds } from './verdict.ts';

const flags = readFlags(
  {
    seed: '1',
    steps: '8',
    stages: 'same,kills,head,stop,apart,vllm',
    runs: 'runs/prove-ray',
    verbose: false,
  },
  { stages: 'same,kills,apart' },
);
const seed = Number(flags.seed);
const steps = Number(flags.steps);
const TASKS = 16;
const ATTEMPTS = 4;
/** About how long a step takes here. */
const STEP_MS = 4000;
const clock = realClock();
const random = createRandom(seed);
const say = (line: string) => console.error(line);
const aims: Aim[] = [];
const show = (aim: Aim) => {
  aims.push(aim);
  say(`${aim.passed ? 'reached' : 'MISSED '}  ${aim.aim}: ${JSON.stringify(aim.measured)}`);
};
const figures: Record<string, unknown> = {};
let known: Curve | undefined;

const bin = installRay(say);
const python = join(bin, 'python');
if (!(await checkEnvironment(defaultPython()).catch(() => undefined)))
  await installEnvironment({ build: 'cpu', python: 'python3', log: say });
const runs = resolve(flags.runs);
mkdirSync(runs, { recursive: true });
const warm = resolve(await warmStart(runs, { seed: 1, variant: 'short' }));
const scratch = mkdtempSync(join(tmpdir(), 'rc-ray-')); // short, because it holds the paths of sockets
const projectIn = (folder: string, model = warm) => {
  writeProject({
    ...{ folder, model, seed, steps, tasksPerStep: TASKS, attemptsPerTask: ATTEMPTS },
    python: defaultPython(),
  });
  return folder;
};
const project = projectIn(join(scratch, 'project'));

async function withCluster(
  name: string,
  options: Partial<ClusterOptions>,
  act: (cluster: RayNodes) => Promise<void>,
) {
  const folder = join(scratch, name);
  const cluster = await RayNodes.start({ bin, folder, cpus: [3, 3, 3], ...options });
  try {
    await act(cluster);
  } finally {
    await cluster.stop();
  }
}

function launchOn(
  cluster: RayNodes,
  runDir: string,
  words: readonly string[] = [],
  onLine: (line: string) => void = () => {},
  from = project,
): Promise<Ended> {
  const told = (line: string) => {
    if (flags.verbose || /^step |has ended|is lost|is on |resume/.test(line)) say(`  ${line}`);
    onLine(line);
  };
  return launch({ project: from, address: cluster.address, python, runDir, words, onLine: told });
}

const fresh = (name: string) => {
  const runDir = join(runs, name);
  for (const path of [runDir, `${runDir}.weights`]) rmSync(path, { recursive: true, force: true });
  return runDir;
};

/** The same options without a cluster: the embedded engine in the run's process, and two ranks that it starts itself. */
async function inOneProcess(): Promise<Curve> {
  if (known) return known;
  const runDir = fresh('process');
  const words = [
    'servers.engine=embedded',
    'servers.replicas=1',
    'cluster.nodes=1',
    'trainer.options.ranks=2',
  ];
  const ended = await rollcall(['train', 'run.yaml', '--run', runDir, ...words], project, (line) => {
    if (/^step /.test(line)) say(`  ${line}`);
  });
  if (ended.code !== 0)
    throw new Error(`the run in one process ended with ${ended.code}\n${ended.lines.join('\n')}`);
  known = curveOf(runDir);
  return known;
}

/** Whole: it ended by itself, every step has all of its trajectories, and every file is what it was when it was written. */
async function showWhole(what: string, ended: Ended, runDir: string): Promise<Curve> {
  if (ended.code !== 0) say(ended.lines.slice(-40).join('\n'));
  show(holds(`${what}: the job ends by itself with 0`, ended.code === 0, ended.code));
  const curve = curveOf(runDir);
  const all =
    curve.trajectories.length === steps && curve.trajectories.every((count) => count === TASKS * ATTEMPTS);
  show(
    holds(
      `${what}: every step has its ${TASKS * ATTEMPTS} trajectories, none failed`,
      all && curve.failed === 0,
      curve.trajectories,
    ),
  );
  const verified = await rollcall(['verify', runDir, '--json'], '.');
  show(holds(`${what}: rollcall verify finds every file sound`, verified.code === 0));
  return curve;
}

const apart = (one: readonly number[], other: readonly number[]) =>
  one.length === other.length && one.length > 0
    ? Math.max(...one.map((value, at) => Math.abs(value - other[at]!)))
    : undefined;

function showSame(what: string, found: Curve, expected: Curve): void {
  show(
    atMost(
      `${what}: rewards of ${steps} steps differ from those in one process by`,
      apart(found.rewards, expected.rewards),
      0,
    ),
  );
  const norms = expected.gradNorms.map((norm, at) =>
    Math.abs((found.gradNorms[at] ?? Number.NaN) / norm - 1),
  );
  show(atMost(`${what}: gradient norms differ by a share of`, Math.max(...norms), 1e-6));
}

async function proveSame(): Promise<void> {
  const expected = await inOneProcess();
  const runDir = fresh('same');
  await withCluster('a', {}, async (cluster) => {
    const ended = await launchOn(cluster, runDir);
    const found = await showWhole('on Ray', ended, runDir);
    showSame('on Ray', found, expected);
    figures['same'] = { rewards: found.rewards, seconds: ended.seconds, inOneProcess: expected.rewards };
  });
}

interface Blow {
  readonly what: string;
  /** Kills it, and says what was killed. */
  strike(cluster: RayNodes): string;
}

const killOne = (what: string, text: string): Blow => ({
  what,
  strike: (cluster) => {
    const found = cluster.find(text);
    const { pid, node } = found[random.integer(found.length)]!;
    process.kill(pid, 'SIGKILL');
    return `process ${pid} of node ${node}`;
  },
});

const BLOWS: readonly Blow[] = [
  killOne('a replica', 'rollcall.js serve'),
  killOne('a trainer rank', '-m rollcall_torch'),
  {
    what: "the raylet of the control plane's node",
    strike: (cluster) => {
      const { node } = cluster.find('rollcall.js train')[0]!;
      process.kill(cluster.raylet(node), 'SIGKILL');
      return `of node ${node}`;
    },
  },
  killOne('the control plane', 'rollcall.js train'),
];

/** The head has no CPUs, so every part is on a node that may be lost. One blow at a time, each at a random moment of the step after the one that ended. */
async function proveKills(): Promise<void> {
  const expected = await inOneProcess();
  const runDir = fresh('kills');
  await withCluster('b', { cpus: [0, 3, 3, 3] }, async (cluster) => {
    const rows: Row[] = [];
    const waiting = [...BLOWS];
    let struck: Promise<void> | undefined;
    const onLine = (line: string) => {
      if (!/^step \d/.test(line)) return;
      const row = rows.at(-1);
      if (row) row.seconds ??= Math.round((clock.now() - row.atMs) / 1000);
      if (struck || waiting.length === 0) return;
      struck = strike(waiting.shift()!, cluster, line, rows).finally(() => {
        struck = undefined;
      });
    };
    const ended = await launchOn(cluster, runDir, [], onLine);
    show(holds('kills: all four were struck', rows.length === BLOWS.length, rows.length));
    const found = await showWhole('kills', ended, runDir);
    showSame('kills', found, expected);
    console.log('\n| killed | after | which | until the next step ended |\n| --- | --- | --- | ---: |');
    for (const { what, after, which, seconds } of rows)
      console.log(`| ${what} | ${after} | ${which} | ${seconds ?? '–'} s |`);
    console.log();
    figures['kills'] = { rows, rewards: found.rewards, seconds: ended.seconds };
  });
}

interface Row {
  readonly what: string;
  readonly after: string;
  readonly which: string;
  readonly atMs: number;
  /** Until the next step ended. */
  seconds?: number;
}

/** At a random moment of the step that follows a line. */
async function strike(blow: Blow, cluster: RayNodes, line: string, rows: Row[]): Promise<void> {
  await sleep(clock, random.next() * STEP_MS);
  const which = blow.strike(cluster);
  rows.push({ what: blow.what, after: line.split('  ')[0]!, which, atMs: clock.now() });
  say(`  --- SIGKILL: ${blow.what}, ${which}`);
}

/** With the head's raylet the whole cluster goes, and the job with it. */
async function proveHead(): Promise<void> {
  const expected = await inOneProcess();
  const runDir = fresh('head');
  await withCluster('c', {}, async (cluster) => {
    let struck = false;
    const ended = await launchOn(cluster, runDir, [], (line) => {
      if (struck || !/^step 2/.test(line)) return;
      struck = true;
      process.kill(cluster.raylet(0), 'SIGKILL');
    });
    show(
      holds(
        "the head's raylet killed: launch says that the job is lost",
        ended.code === 1,
        ended.lines.at(-1),
      ),
    );
  });
  await withCluster('d', {}, async (cluster) => {
    const ended = await launchOn(cluster, runDir, ['--resume']);
    const found = await showWhole('resumed on another cluster', ended, runDir);
    showSame('resumed on another cluster', found, expected);
    figures['head'] = { rewards: found.rewards, seconds: ended.seconds };
  });
}

/** `launch stop` ends the job and every process of the run; `launch status` says so. */
async function proveStop(): Promise<void> {
  const runDir = fresh('stop');
  await withCluster('e', {}, async (cluster) => {
    const about = ['--address', cluster.address];
    let stopped: Promise<Ended> | undefined;
    const ended = await launchOn(cluster, runDir, ['--id', 'to-be-stopped'], (line) => {
      if (/^step 1/.test(line)) stopped ??= rollcall(['launch', 'stop', 'to-be-stopped', ...about], '.');
    });
    const code = (await stopped)?.code;
    const { lines } = await rollcall(['launch', 'status', 'to-be-stopped', ...about], '.');
    show(
      holds('stop: launch stop ends with 0, and attach with 1', code === 0 && ended.code === 1, [
        code,
        ended.code,
      ]),
    );
    show(
      holds('stop: launch status says that it was stopped', /: stopped/.test(lines.join()), lines.join(' ')),
    );
    await sleep(clock, 15_000); // a guard gives its process ten seconds
    const left = ['rollcall.js', 'rollcall_torch'].flatMap((text) => cluster.find(text));
    show(holds('stop: no process of the run is left', left.length === 0, left.length));
  });
}

/** Every node has a disk of its own where the run directory is: refused without --no-shared-disk, and runs with it. */
async function proveApart(
  name: string,
  from: string,
  words: readonly string[],
  compare = true,
): Promise<void> {
  const ownDisk = join(scratch, `${name}-disk`);
  const runDir = join(ownDisk, 'run');
  await withCluster(name, { ownDisk, cpus: [1, 4, 2] }, async (cluster) => {
    const trainer = ['cluster.nodes=1', 'trainer.options.ranks=2', ...words];
    const refused = await launchOn(cluster, runDir, trainer, () => {}, from);
    const why = refused.lines.find((line) => line.includes('does not see what'));
    show(
      holds(
        `${name}: nodes without a shared disk are refused by name`,
        refused.code === 1 && why !== undefined,
        why?.trim(),
      ),
    );
    let struck = false;
    const ended = await launchOn(
      cluster,
      runDir,
      [...trainer, '--no-shared-disk'],
      (line) => {
        if (struck || !/^step 2/.test(line)) return;
        struck = true;
        const text = from === project ? 'rollcall.js serve' : 'vllm serve';
        const server = cluster.find(text)[0]!;
        process.kill(server.pid, 'SIGKILL');
        say(`  --- SIGKILL: a replica, process ${server.pid} of node ${server.node}`);
      },
      from,
    );
    // The disk of the trainer's node, through a process that sees it.
    const seen = [0, 1, 2].map((node) => `/proc/${cluster.raylet(node)}/root${runDir}`);
    const there = seen.filter((path) => existsSync(join(path, 'metrics.jsonl')));
    show(holds(`${name}: the run directory is on one node alone`, there.length === 1, there.length));
    const found = await showWhole(name, ended, there[0] ?? runDir);
    show(
      holds(
        `${name}: the replica was killed and is back`,
        ended.lines.some((line) => /is back, with version/.test(line)),
      ),
    );
    if (compare) showSame(name, found, await inOneProcess());
    figures[name] = { rewards: found.rewards, seconds: ended.seconds };
  });
}

/** Two real vLLM servers on the CPU. Their arithmetic is their own, so the run is not compared digit by digit. */
async function proveVllm(): Promise<void> {
  const real = REAL_SERVERS.vllm;
  await install(real, say);
  const model = resolve(smallModels(warm, join(runs, 'models')).untied);
  const from = projectIn(join(scratch, 'vllm-project'), model);
  const environment = Object.entries(real.launch.environment ?? {}).flatMap(([name, value]) => [
    '--env',
    `${name}=${value}`,
  ]);
  const words = [
    'servers.engine=vllm',
    `servers.program=${real.program}`,
    `servers.flags=${JSON.stringify(real.launch.flags)}`,
    'servers.startSeconds=600',
    ...environment,
  ];
  await proveApart('vllm', from, words, false);
}

const stages: Readonly<Record<string, () => Promise<void>>> = {
  same: proveSame,
  kills: proveKills,
  head: proveHead,
  stop: proveStop,
  apart: () => proveApart('apart', project, []),
  vllm: proveVllm,
};
try {
  for (const name of flags.stages.split(',')) {
    const stage = stages[name];
    if (!stage) throw new Error(`no stage is called ${name}; there are ${Object.keys(stages)}`);
    say(`--- ${name}`);
    await stage();
  }
  conclude(aims, figures);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

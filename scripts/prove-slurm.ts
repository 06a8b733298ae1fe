/**
 * A run as a job of a real Slurm cluster: slurmctld and five slurmd of Debian's packages on this machine, each node in a network
 * namespace. The quick start's problems are trained with two `rollcall serve` and the PyTorch trainer on two nodes (gloo). One
 * job is undisturbed and heterogeneous; one is preempted with a warning, then requeued without one; one reaches its time limit;
 * of one a server, a rank and the control plane are killed; one loses the control plane's node; one is stopped. All must earn
 * the rewards of the same run in one process. Needs root, slurm-wlm, munge and the environment of `rollcall torch install`.
 */
import { execFile, execFileSync } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { readMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { warmStart } from './short-run.ts';
import { type Job, kills, lostNode, timeLimit } from './slurm/blows.ts';
import { startCluster, whatIsMissing } from './slurm/cluster.ts';
import { writeProblems } from './slurm/problems.ts';
import { type Aim, atMost, conclude, concludeFailed, holds } from './verdict.ts';

const execute = promisify(execFile);
/** A node that is lost does not come back, so that comes last. */
const PARTS = 'gpus,undisturbed,disturbed,stopped,limit,kills,node';
const flags = readFlags(
  { runs: 'runs/prove-slurm', steps: '8', tasks: '16', parts: PARTS },
  { steps: '6', tasks: '8' },
);
const steps = Number(flags.steps);
const MINUTES_PER_JOB = 15;
const runs = resolve(flags.runs);
const aims: Aim[] = [];
const figures: Record<string, unknown> = {};
const say = (line: string) => console.error(`${new Date().toISOString().slice(11, 19)} ${line}`);

const missing = whatIsMissing();
if (missing !== undefined) concludeFailed(`no Slurm cluster can be started here: ${missing}`);
else await prove();

async function prove(): Promise<void> {
  const model = await warmStart(runs, { seed: 1, variant: 'short' });
  const problems = join(runs, 'problems.jsonl');
  await writeProblems(problems, 1, steps * Number(flags.tasks));
  const words = [
    'scripts/slurm/run.yaml',
    ...[`model=${model}`, `tasks.files=[${problems}]`],
    ...[`tasksPerStep=${flags.tasks}`, `steps=${steps}`, 'seed=1', 'checkpoints.every=2'],
    ...['trainer.name=torch', 'trainer.options.device=cpu', 'trainer.options.threads=1'],
  ];
  const near = join(runs, 'process');
  const chosen = flags.parts.split(',');
  if (chosen.some((part) => part !== 'gpus' && part !== 'stopped')) {
    await rm(near, { recursive: true, force: true });
    say('in one process');
    await rollcall(['train', ...words, 'trainer.options.ranks=2', '--run', near]);
  }
  const expected = await curveOf(near).catch(() => ({ rewards: [], norms: [] }));

  const far = [
    ...words,
    'servers.engine=rollcall',
    'servers.replicas=2',
    'servers.flags=["--threads","1"]',
    'trainer.options.ranks=1',
  ];
  const cluster = await startCluster(join(runs, 'cluster'), 5);
  // Nothing of it may be left behind by a proof that is ended.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void cluster.stop().finally(() => process.exit(1)));
  }
  const environment = { ...process.env, ...cluster.environment };
  const slurm = (program: string, ...rest: string[]) =>
    execFileSync(program, rest, { encoding: 'utf8', env: environment });
  const submit = async (name: string, more: readonly string[]) => {
    const runDir = join(runs, name);
    await rm(runDir, { recursive: true, force: true });
    const line = await rollcall(
      ['launch', 'slurm', ...far, `runDir=${runDir}`, 'cluster.nodes=2', ...more],
      environment,
    );
    const id = /^(\d+):/.exec(line)?.[1];
    if (id === undefined) throw new Error(`launch printed ${line}`);
    say(`${name}: job ${id}`);
    return { id, runDir };
  };
  const stateOf = async (id: string) => (await rollcall(['launch', 'status', id], environment)).trim();
  const untilStep = async (runDir: string, step: number) =>
    until(`step ${step}`, async () => (await stepsOf(runDir)) >= step);
  const untilEnded = (id: string) =>
    until(`the end of job ${id}`, async () => !/: (waiting|running)/.test(await stateOf(id)));

  const survive = async (name: string, title: string, what: (job: Job) => Promise<Aim[]>) => {
    const { id, runDir } = await submit(name, []);
    const log = () => rollcall(['launch', 'logs', id], environment).catch(() => '');
    const job = { ...{ id, cluster, slurm, log, until, say }, steps: () => stepsOf(runDir) };
    aims.push(...(await what({ ...job, ended: () => untilEnded(id) })));
    await compare(title, id, runDir);
  };

  const parts: Record<string, () => Promise<void>> = {
    limit: () => survive('limit', 'out of time', timeLimit),
    kills: () => survive('kills', 'processes killed', kills),
    node: () => survive('node', 'a node lost', lostNode),
    undisturbed: async () => {
      const { id, runDir } = await submit('undisturbed', ['--heterogeneous']);
      await untilEnded(id);
      await compare('a heterogeneous job', id, runDir);
    },
    disturbed: async () => {
      const { id, runDir } = await submit('disturbed', []);
      await untilStep(runDir, 2);
      const urgent = slurm(
        'sbatch',
        '--parsable',
        '--partition=urgent',
        '--nodes=5',
        '--exclusive',
        '--output=/dev/null',
        '--wrap=sleep 5',
      ).trim();
      say(`job ${urgent} takes its nodes`);
      await untilEnded(urgent);
      const saved = await stepsOf(runDir);
      await untilStep(runDir, saved + 2);
      say('scontrol requeue');
      slurm('scontrol', 'requeue', id);
      await untilEnded(id);
      const log = await rollcall(['launch', 'logs', id], environment);
      const starts = log.match(/start 1 on .*/g) ?? [];
      figures['starts'] = starts;
      aims.push(
        holds(
          'preempted and requeued, the job started three times, twice with --resume',
          starts.length === 3 && starts.filter((line) => line.includes('--resume')).length === 2,
          starts.length,
        ),
      );
      aims.push(
        holds(
          'warned of the preemption, it saved the step that it had finished',
          /wants the nodes back: saving/.test(log) && saved >= 2,
          saved,
        ),
      );
      await compare('preempted, then requeued', id, runDir);
    },
    /** Nobody answers here: what Slurm tells each server of its node's GPUs is what counts. */
    gpus: async () => {
      const program = join(runs, 'gpus.sh');
      const seen = join(runs, 'gpus.txt');
      await rm(seen, { force: true });
      const line = `echo "$(hostname -s) $CUDA_VISIBLE_DEVICES" >>${seen}; exec sleep 600`;
      // Asked for its version by `launch`, it knows none.
      await writeFile(program, `#!/bin/bash\n[ -n "$SLURM_JOB_ID" ] || exit 1\n${line}\n`, { mode: 0o755 });
      const { id } = await submit('gpus', [
        ...[
          'servers.engine=vllm',
          `servers.program=${program}`,
          'servers.replicas=4',
          'servers.tensorParallel=2',
        ],
        ...['cluster.nodes=1', 'cluster.serverNodes=2', 'cluster.serverGpusPerNode=4'],
      ]);
      const lines = async () => (await readFile(seen, 'utf8').catch(() => '')).trim().split('\n').sort();
      await until('four servers', async () => (await lines()).length === 4);
      await rollcall(['launch', 'stop', id], environment);
      await untilEnded(id);
      aims.push(
        holds(
          'two nodes of four GPUs are divided among four servers of two',
          (await lines()).join() ===
            ['2 0,1', '2 2,3', '3 0,1', '3 2,3'].map((one) => `rollcall${one}`).join(),
          await lines(),
        ),
      );
    },
    stopped: async () => {
      const { id, runDir } = await submit('stopped', []);
      await untilStep(runDir, 1);
      await rollcall(['launch', 'stop', id], environment);
      await untilEnded(id);
      const said = await stateOf(id);
      aims.push(
        holds('launch stop ends a job, which is not requeued', said.includes('stopped (CANCELLED'), said),
      );
    },
  };

  async function compare(name: string, id: string, runDir: string): Promise<void> {
    const said = await stateOf(id);
    const curve = await curveOf(runDir);
    figures[name] = { said, ...curve };
    aims.push(holds(`${name}: it succeeds`, said.includes(': succeeded'), said));
    aims.push(
      holds(
        `${name}: every reward is that of one process`,
        curve.rewards.join() === expected.rewards.join(),
        curve.rewards,
      ),
    );
    const apart = curve.norms.map((norm, at) => Math.abs(norm / expected.norms[at]! - 1));
    aims.push(
      atMost(
        `${name}: gradient norms differ by a share of`,
        curve.norms.length === steps ? Math.max(...apart) : undefined,
        1e-4,
      ),
    );
    const sound = await rollcall(['verify', runDir]).then(
      () => true,
      () => false,
    );
    aims.push(holds(`${name}: every checksum is right`, sound));
  }

  try {
    for (const part of chosen) await parts[part]!();
  } finally {
    for (const id of slurm('squeue', '--noheader', '--format=%i').split('\n').filter(Boolean))
      slurm('scancel', id);
    await wait(3000);
    await cluster.stop();
  }
  const left = /^rollcall\d/m.test(execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }));
  aims.push(holds('nothing of the cluster is left', !left));
  conclude(aims, { nodes: cluster.nodes.length, expected, ...figures });
}

async function rollcall(words: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const { stdout } = await execute(process.execPath, ['bin/rollcall.js', ...words], {
    env,
    maxBuffer: 2 ** 26,
  });
  return stdout;
}

async function stepsOf(runDir: string): Promise<number> {
  const metrics = await readMetrics(runDir).catch(() => []);
  return Math.max(0, ...metrics.map(({ step }) => step));
}

async function curveOf(runDir: string) {
  const metrics = await readMetrics(runDir);
  return {
    rewards: metrics.map((line) => line.metrics['critic/score/mean']!),
    norms: metrics.map((line) => line.metrics['actor/grad_norm']!),
  };
}

async function until(what: string, is: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + MINUTES_PER_JOB * 60_000;
  while (!(await is())) {
    if (Date.now() > deadline) throw new Error(`${what} did not come in ${MINUTES_PER_JOB} minutes`);
    await wait(2000);
  }
}

/** `rollcall launch slurm run.yaml`: a run as one Slurm job, by a script that can be read, kept and changed. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { engineNamed } from '../inference/engines.ts';
import { installedRelease } from '../inference/installed-engine.ts';
import { SlurmCluster } from '../launch/slurm.ts';
import { type SlurmPlan, slurmScript } from '../launch/slurm-script.ts';
import { ownProgram } from '../lib/own-program.ts';
import { needsNoServer } from '../options/engines.ts';
import type { ResolvedRun } from '../options/resolve-run.ts';
import type { DescribedRun } from '../options/schema.ts';
import { defaultPython, packageFolder } from '../torch/environment.ts';
import { isRunFile, refuse, resolveWords, splitWords } from './given-run.ts';
import { whole } from './number.ts';
import { notEmpty } from './text.ts';

interface SlurmFlags {
  readonly dryRun?: boolean;
  readonly template?: string;
  readonly resume?: boolean;
  readonly replicasPerNode: number;
  readonly heterogeneous?: boolean;
  readonly sbatch: readonly string[];
}

export function registerLaunchSlurm(launch: Command): void {
  launch
    .command('slurm')
    .description(
      'run as one Slurm job: servers, trainer and control plane, requeued and resumed when nodes are taken',
    )
    .argument('[words...]', 'a YAML file or verl script, and overrides, as for rollcall train')
    .option('--dry-run', 'print the script; submit nothing')
    .option('--template <file>', 'your own script; the shipped one is bin/slurm.sh of the package', notEmpty)
    .option('--resume', 'continue the run from its latest checkpoint')
    .option('--heterogeneous', 'groups of nodes for control plane, trainer and servers, not one allocation')
    .option('--replicas-per-node <n>', 'servers on one node, for engines on CPUs', whole(1, 90), 1)
    .option(
      '--sbatch <word>',
      'a word for sbatch, such as --sbatch=--partition=gpu; may be given several times',
      (word: string, before: readonly string[]) => [...before, word],
      [],
    )
    .action(submit);
}

async function submit(words: string[], flags: SlurmFlags): Promise<void> {
  const { file, overrides } = splitWords(words);
  if (isRunFile(file)) {
    throw new ConfigError(
      `${file} builds its servers and trainer in code; launch takes a run as data: a YAML file`,
    );
  }
  const resolved = await resolveWords({ file, overrides });
  for (const note of resolved.notes) console.error(note);
  // What nobody has placed is placed by this command.
  const missing = resolved.missing.filter((line) => !line.startsWith('cluster.'));
  if (flags.dryRun) for (const line of missing) console.error(`missing: ${line}`);
  refuse({ ...resolved, missing: flags.dryRun ? [] : missing });
  const plan = await slurmPlan(resolved, words, flags, process.cwd());
  const template = await readFile(flags.template ?? ownProgram('slurm.sh'), 'utf8');
  const script = slurmScript(template, plan);
  if (flags.dryRun) {
    process.stdout.write(script);
    return;
  }
  if (!plan.resume && existsSync(join(plan.runDir, 'checkpoints', 'latest'))) {
    throw new ConfigError(
      `${plan.runDir} already holds a run; continue it with --resume, or choose another runDir`,
    );
  }
  const folder = join(plan.runDir, 'launch');
  await mkdir(folder, { recursive: true });
  const kept = join(folder, 'job.sh');
  await writeFile(kept, script, { mode: 0o755 });
  const id = await new SlurmCluster().submit(kept);
  console.log(`${id}: submitted; its script is ${kept}`);
  console.log(`rollcall launch status|logs|attach|stop ${id}`);
}

/** What the described run needs of the cluster. `words` start the control plane there. */
export async function slurmPlan(
  resolved: ResolvedRun,
  words: readonly string[],
  flags: SlurmFlags,
  directory: string,
): Promise<SlurmPlan> {
  const run = resolved.options;
  const runDir = resolve(directory, run.runDir ?? join('runs', run.project, run.experiment));
  const servers = await serversOf(resolved, flags, directory);
  const trainer = trainerOf(run, directory);
  const weights = join(runDir, 'launch', 'weights');
  const shared = [
    ...(servers && run.servers.weightsDirectory === null ? [`servers.weightsDirectory=${weights}`] : []),
    ...(trainer && run.trainer.options['weightsDirectory'] === undefined
      ? [`trainer.options.weightsDirectory=${weights}`]
      : []),
  ];
  return {
    name: run.experiment,
    directory,
    runDir,
    control: [process.execPath, ownProgram('rollcall.js'), 'train', ...words, ...shared, '--run', runDir],
    resume: flags.resume ?? false,
    ...(servers && { servers }),
    ...(trainer && { trainer }),
    heterogeneous: flags.heterogeneous ?? false,
    // Time to save, and as much as Slurm may be late with its signal.
    warnSeconds: Math.ceil(run.checkpoints.graceSeconds) + 60,
    sbatch: flags.sbatch,
  };
}

/** Servers of `servers.mode: standalone`; with `server` they run elsewhere, and the embedded engine runs in the control plane. */
async function serversOf(
  { options, given }: ResolvedRun,
  { replicasPerNode }: SlurmFlags,
  directory: string,
): Promise<SlurmPlan['servers']> {
  const { servers, cluster, trainer, model } = options;
  const { mode, engine: name, tensorParallel, memoryShare, logLevel } = servers;
  if (mode === 'server' || needsNoServer(name)) return undefined;
  const engine = engineNamed(name, 'servers.engine');
  const { launch } = engine;
  if (!launch)
    throw new ConfigError(`servers of ${name} cannot be started by us; give servers.urls of running ones`);
  const local = existsSync(resolve(directory, model)) ? resolve(directory, model) : model;
  const { arguments: words, environment } = launch.command(
    {
      ...{ model: local, host: '0.0.0.0', portStart: 0, replicas: 1 },
      ...{ tensorParallel, memoryShare, logLevel, sleeps: false },
    },
    0,
    // The nodes have what this machine has, if it has it.
    await installedRelease(engine, servers.program ?? undefined).catch(() => undefined),
  );
  const size = launch.onGpus
    ? onGpuNodes({
        tensorParallel,
        nodes: cluster.serverNodes,
        gpusPerNode: cluster.serverGpusPerNode ?? Number(trainer.options['ranks'] ?? 1),
        replicas: given.has('servers.replicas') ? servers.replicas : undefined,
      })
    : { replicas: servers.replicas, perNode: replicasPerNode, gpusEach: 0, gpusPerNode: 0 };
  return {
    ...size,
    // Each node gives its own port, and threads are those of the node.
    command: [
      servers.program ?? launch.program,
      ...without(words, ['--port', '--threads']),
      ...servers.flags,
    ],
    environment,
    ...(launch.keyFlag !== undefined && { keyFlag: launch.keyFlag }),
  };
}

/** In verl's words: `rollout.nnodes` × `rollout.n_gpus_per_node` GPUs in groups of `rollout.tensor_model_parallel_size`. */
function onGpuNodes(asked: {
  readonly tensorParallel: number;
  readonly nodes: number;
  readonly gpusPerNode: number;
  readonly replicas: number | undefined;
}) {
  const { tensorParallel: gpusEach, nodes, gpusPerNode } = asked;
  if (nodes === 0) {
    throw new ConfigError(
      'cluster.serverNodes is 0: servers on the GPUs of the trainer are not offered in a Slurm job; give them nodes of their own',
    );
  }
  if (gpusPerNode % gpusEach !== 0) {
    throw new ConfigError(
      `servers.tensorParallel is ${gpusEach}; a server's GPUs are of one node, so it must divide the ${gpusPerNode} of cluster.serverGpusPerNode`,
    );
  }
  const perNode = gpusPerNode / gpusEach;
  const { replicas = nodes * perNode } = asked;
  if (Math.ceil(replicas / perNode) !== nodes) {
    throw new ConfigError(
      `servers.replicas is ${replicas}; ${nodes} nodes of ${gpusPerNode} GPUs hold ${nodes * perNode} servers of ${gpusEach}`,
    );
  }
  return { replicas, perNode, gpusEach, gpusPerNode };
}

function trainerOf({ trainer, cluster }: DescribedRun, directory: string): SlurmPlan['trainer'] {
  const { url, device, ranks = 1, threads, python, secondsPerExchange } = trainer.options;
  if (trainer.name !== 'torch' || url !== undefined) return undefined;
  const program = typeof python === 'string' ? resolve(directory, python) : defaultPython();
  return {
    nodes: cluster.nodes,
    ranksPerNode: Number(ranks),
    gpusPerNode: device === 'cpu' ? 0 : Number(ranks),
    python: ['env', `PYTHONPATH=${packageFolder()}`, program],
    words: Object.entries({ device, threads, 'seconds-per-exchange': secondsPerExchange })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `--${name}=${value}`),
  };
}

/** Words without these flags and their values. */
function without(words: readonly string[], flags: readonly string[]): string[] {
  return words.filter((word, at) => !flags.includes(word) && !flags.includes(words[at - 1] ?? ''));
}

/** `rollcall launch slurm run.yaml`: a run as one Slurm job, by a script that can be read, kept and changed. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import { engineNamed } from '../inference/engines.ts';
import { SlurmCluster } from '../launch/slurm.ts';
import { type SlurmPlan, slurmScript } from '../launch/slurm-script.ts';
import { ownProgram } from '../lib/own-program.ts';
import { LOCAL_ENGINES } from '../options/engines.ts';
import type { DescribedRun } from '../options/schema.ts';
import { defaultPython, packageFolder } from '../torch/environment.ts';
import { isRunFile, refuse, resolveWords, splitWords } from './given-run.ts';
import { whole } from './number.ts';
import { notEmpty } from './text.ts';

interface SlurmFlags {
  readonly dryRun?: boolean;
  readonly template?: string;
  readonly resume?: boolean;
  readonly gpusPerNode: number;
  readonly replicasPerNode?: number;
  readonly trainerNodes: number;
  readonly heterogeneous?: boolean;
  readonly sbatch: readonly string[];
}

export function registerLaunchSlurm(launch: Command): void {
  launch
    .command('slurm')
    .description(
      'submit a run to Slurm: servers, trainer and control plane in one job that is requeued and resumed',
    )
    .argument('[words...]', 'a YAML file or a script of verl, and overrides such as servers.replicas=4')
    .option('--dry-run', 'print the script; submit nothing')
    .option('--template <file>', 'your own script; the shipped one is bin/slurm.sh of the package', notEmpty)
    .option('--resume', 'continue the run from its latest checkpoint')
    .option('--gpus-per-node <n>', 'GPUs of a node, where servers or trainer use any', whole(1), 8)
    .option(
      '--replicas-per-node <n>',
      'servers on one node; default as many as its GPUs hold, without GPUs one',
      whole(1),
    )
    .option(
      '--trainer-nodes <n>',
      'nodes of the PyTorch trainer, with trainer.options.ranks processes each',
      whole(1),
      1,
    )
    .option(
      '--heterogeneous',
      'groups of nodes for control plane, trainer and servers, instead of one allocation',
    )
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
  refuse(resolved);
  const plan = slurmPlan(resolved.options, words, flags, process.cwd());
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
export function slurmPlan(
  run: DescribedRun,
  words: readonly string[],
  flags: SlurmFlags,
  directory: string,
): SlurmPlan {
  const runDir = resolve(directory, run.runDir ?? join('runs', run.project, run.experiment));
  const servers = serversOf(run, flags, directory);
  const trainer = trainerOf(run, flags, directory);
  const weights = join(runDir, 'launch', 'weights');
  return {
    name: run.experiment,
    directory,
    runDir,
    control: [
      process.execPath,
      ownProgram('rollcall.js'),
      'train',
      ...words,
      '--run',
      runDir,
      ...(servers && run.servers.weightsDirectory === null ? [`servers.weightsDirectory=${weights}`] : []),
      ...(trainer && run.trainer.options['weightsDirectory'] === undefined
        ? [`trainer.options.weightsDirectory=${weights}`]
        : []),
    ],
    resume: flags.resume ?? false,
    ...(servers && { servers }),
    ...(trainer && { trainer }),
    gpusPerNode: flags.gpusPerNode,
    heterogeneous: flags.heterogeneous ?? false,
    // Time to save, and as much again for Slurm's clock, which looks once in a while.
    warnSeconds: Math.ceil(run.checkpoints.graceSeconds) + 60,
    sbatch: flags.sbatch,
  };
}

/** Servers of `servers.mode: standalone`; with `server` they run elsewhere, and the embedded engine runs in the control plane. */
function serversOf(
  { servers, model }: DescribedRun,
  flags: SlurmFlags,
  directory: string,
): SlurmPlan['servers'] {
  const { mode, engine: name, replicas, tensorParallel, memoryShare, logLevel } = servers;
  if (mode === 'server' || LOCAL_ENGINES[name]) return undefined;
  const { launch } = engineNamed(name, 'servers.engine');
  if (!launch)
    throw new ConfigError(`servers of ${name} cannot be started by us; give servers.urls of running ones`);
  const gpus = launch.onGpus ? tensorParallel : 0;
  const fitting = gpus > 0 ? Math.floor(flags.gpusPerNode / gpus) : 1;
  const perNode = flags.replicasPerNode ?? fitting;
  if (perNode < 1 || perNode * gpus > flags.gpusPerNode) {
    throw new ConfigError(
      `${Math.max(perNode, 1)} servers of ${gpus} GPUs (servers.tensorParallel) do not fit a node of ${flags.gpusPerNode} (--gpus-per-node); a server stays on one node`,
    );
  }
  const local = existsSync(resolve(directory, model)) ? resolve(directory, model) : model;
  const { arguments: words, environment } = launch.command(
    {
      ...{ model: local, host: '0.0.0.0', portStart: 0, replicas: perNode },
      ...{ tensorParallel, memoryShare, logLevel, sleeps: false },
    },
    0,
  );
  return {
    replicas,
    perNode,
    gpus,
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

function trainerOf({ trainer }: DescribedRun, flags: SlurmFlags, directory: string): SlurmPlan['trainer'] {
  const { url, device, ranks, threads, python, secondsPerExchange } = trainer.options;
  if (trainer.name !== 'torch' || url !== undefined) return undefined;
  const onGpus = device !== 'cpu';
  const program = typeof python === 'string' ? resolve(directory, python) : defaultPython();
  return {
    nodes: flags.trainerNodes,
    ranksPerNode: typeof ranks === 'number' ? ranks : onGpus ? flags.gpusPerNode : 1,
    onGpus,
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

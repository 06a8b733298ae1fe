/** `rollcall launch ray`: a run as data becomes a plan, the plan and the working directory a job of a Ray cluster. */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../errors.ts';
import type { LaunchRecipe } from '../inference/engine.ts';
import { engineNamed } from '../inference/engines.ts';
import { launchCommands } from '../inference/launch-commands.ts';
import { type LayoutRequest, layOut } from '../launch/layout.ts';
import { kubeRayManifest, MOUNTED } from '../launch/manifest.ts';
import { ENTRYPOINT, PLAN_FILE, planRun, RUN_FILE, type RunToPlan, runFile } from '../launch/plan.ts';
import { filesBelow } from '../launch/working-directory.ts';
import { type ZipEntry, zipOf } from '../launch/zip.ts';
import { ownProgram } from '../lib/own-program.ts';
import { keepSecret } from '../lib/secrets.ts';
import { needsNoServer } from '../options/engines.ts';
import type { ResolvedRun } from '../options/resolve-run.ts';
import type { DescribedRun } from '../options/schema.ts';
import { packageFolder } from '../torch/environment.ts';
import { isRunFile, resolveWords, splitWords } from './given-run.ts';
import { addressOption, attach, type ClusterFlags, rayCluster } from './launch-job.ts';
import { whole } from './number.ts';
import { notEmpty } from './text.ts';

interface RayFlags extends ClusterFlags {
  readonly run?: string;
  readonly resume?: boolean;
  readonly id?: string;
  readonly workingDir: string;
  readonly rollcall: string;
  readonly node: string;
  readonly python: string;
  readonly cpusPerServer: number;
  readonly env: readonly string[];
  readonly secret: readonly string[];
  readonly sharedDisk: boolean;
  readonly attach?: boolean;
  readonly kuberay?: string;
  readonly claim?: string;
  readonly dryRun?: boolean;
}

const EXAMPLES = `
Examples:
  rollcall launch ray run.yaml --address http://head:8265 --run /shared/runs/first --attach
  rollcall launch ray run.yaml --address http://head:8265 --run /shared/runs/first --secret WANDB_API_KEY
  rollcall launch ray run.yaml --run /shared/runs/first --dry-run`;

const collect = (value: string, before: readonly string[]) => [...before, value];

export function registerRay(launch: Command): void {
  launch
    .command('ray')
    .description('run on a Ray cluster: servers, trainer and control plane are placed by its scheduler')
    .argument('[words...]', 'a YAML file or verl script, and overrides, as for rollcall train')
    .addOption(addressOption())
    .option('--run <dir>', 'run directory on the cluster, an absolute path', notEmpty)
    .option('--resume', 'continue the run in that directory from its latest checkpoint')
    .option('--id <name>', 'name of the job; default made from the time', notEmpty)
    .option('--working-dir <dir>', 'what travels with the job: files that git does not ignore', '.')
    .option('--rollcall <dir>', 'this package on the cluster', dirname(dirname(ownProgram('rollcall.js'))))
    .option('--node <program>', 'Node on the cluster', 'node')
    .option('--python <program>', 'a Python with Ray on the cluster, for the driver', 'python3')
    .option('--cpus-per-server <n>', 'CPUs of an inference server', whole(1), 1)
    .option('--env <name=value>', 'an environment variable of all processes', collect, [])
    .option('--secret <name>', 'one by its name: its value here, or the one that the nodes have', collect, [])
    .option('--no-shared-disk', 'nodes share no disk: weights are copied, checkpoints stay with the trainer')
    .option('--attach', 'follow the job until it ends')
    .option('--dry-run', 'print the plan as JSON; submit nothing')
    .option('--kuberay <image>', 'print a RayJob for KubeRay that uses this image; submit nothing', notEmpty)
    .option(
      '--claim <name=path>',
      'with --kuberay: a claim on a volume that all nodes write to, and where',
      notEmpty,
    )
    .addHelpText('after', EXAMPLES)
    .action(launchRay);
}

async function launchRay(words: readonly string[], flags: RayFlags): Promise<void> {
  const given = splitWords(words);
  if (isRunFile(given.file)) {
    throw new ConfigError(
      `${given.file} passes its servers and its trainer as code; launch places those of a run as data (YAML, or overrides)`,
    );
  }
  const resolved = await resolveWords(given);
  for (const note of resolved.notes) console.error(note);
  if (resolved.refused.length > 0) {
    throw new ConfigError(
      `this run cannot start:\n${resolved.refused.map((line) => `  ${line}`).join('\n')}`,
    );
  }
  const directory = resolve(flags.workingDir);
  const run = runToPlan(resolved, flags);
  const plan = planRun(run);
  if (flags.dryRun) {
    console.log(JSON.stringify(plan, null, 2));
    return;
  }
  if (flags.kuberay !== undefined) {
    console.log(
      kubeRayManifest({
        plan,
        run: runFile(run, directory),
        image: flags.kuberay,
        workingDirectory: flags.workingDir,
        volume: volumeOf(flags),
        python: flags.python,
        environment: environmentOf({ ...flags, secret: [] }),
      }),
    );
    return;
  }
  const cluster = rayCluster(flags);
  const ray = await cluster.version();
  const environment = environmentOf(flags);
  const zip = zipOf([
    ...filesBelow(directory),
    ...pythonFiles(),
    { name: RUN_FILE, data: Buffer.from(runFile(run, directory)) },
    { name: PLAN_FILE, data: Buffer.from(`${JSON.stringify(plan, null, 2)}\n`) },
  ]);
  const workingDir = await cluster.upload(zip);
  const id = await cluster.submit({
    id: plan.id,
    entrypoint: ENTRYPOINT(flags.python),
    workingDir,
    environment,
    metadata: { rollcall: plan.runDir },
  });
  console.log(`${id}: submitted to ${cluster.name} (Ray ${ray}), run directory ${plan.runDir}`);
  if (flags.attach) await attach(cluster, id);
  else console.log(`Follow it with: rollcall launch attach ${id} --address ${flags.address}`);
}

/** The resolved options as the plan needs them. */
function runToPlan({ options, values, given }: ResolvedRun, flags: RayFlags): RunToPlan {
  const { servers, trainer, cluster } = options;
  const isTorch = trainer.name === 'torch';
  const engine = servers.mode === 'server' ? undefined : placedEngine(options);
  const onGpus = trainer.options['device'] !== 'cpu';
  const request: LayoutRequest = {
    ...(isTorch && {
      trainer: { nodes: cluster.nodes, ranksPerNode: Number(trainer.options['ranks'] ?? 1), onGpus },
    }),
    ...(engine && {
      servers: {
        replicas: given.has('servers.replicas') ? servers.replicas : undefined,
        gpusEach: onGpus && engine.launch.onGpus ? servers.tensorParallel : 0,
        nodes: cluster.serverNodes,
        gpusPerNode: cluster.serverGpusPerNode ?? undefined,
        cpusEach: flags.cpusPerServer,
      },
    }),
    sharedDisk: flags.sharedDisk,
  };
  return {
    id:
      flags.id ??
      `rollcall-${new Date().toISOString().replace(/\D/g, '').slice(0, 14)}-${randomBytes(2).toString('hex')}`,
    resume: flags.resume ?? options.resume,
    sharedDisk: flags.sharedDisk,
    runDir: flags.run ?? options.runDir ?? `runs/${options.project}/${options.experiment}`,
    model: options.model,
    values,
    layout: layOut(request),
    secrets: flags.secret,
    rollcall: flags.rollcall,
    node: flags.node,
    file: flags.kuberay === undefined ? RUN_FILE : `${MOUNTED}/run.yaml`,
    trainer: isTorch ? trainer.options : undefined,
    server: engine ? serverProcess(options, engine, flags) : { engine: servers.engine, program: [] },
  };
}

interface PlacedEngine {
  readonly name: string;
  readonly launch: LaunchRecipe;
}

/** The engine whose servers are placed; undefined where the control plane samples by itself. */
function placedEngine({ servers }: DescribedRun): PlacedEngine | undefined {
  if (needsNoServer(servers.engine)) return undefined;
  const { name, launch } = engineNamed(servers.engine, 'servers.engine');
  if (!launch) throw new ConfigError(`servers of ${name} cannot be started; give servers.urls`);
  return { name, launch };
}

/** A port that stands for the one that is chosen on the cluster. */
const PORT = 65_535;

function serverProcess({ servers, model }: DescribedRun, engine: PlacedEngine, flags: RayFlags) {
  const { memoryShare, tensorParallel, logLevel, flags: more, program } = servers;
  const [command] = launchCommands(
    { name: engine.name, launch: { ...engine.launch, onGpus: false } }, // GPUs are told by the place
    {
      ...{ model, memoryShare, tensorParallel, logLevel, flags: more, portStart: PORT, replicas: 1 },
      host: '0.0.0.0',
      threads: flags.cpusPerServer,
      ...(program === null ? {} : { program }),
    },
    {},
  );
  const { arguments: given, environment } = command!;
  const onCluster = (word: string) => {
    if (word === process.execPath) return flags.node;
    if (word === ownProgram('rollcall.js')) return `${flags.rollcall}/bin/rollcall.js`;
    return word === String(PORT) ? '@PORT@' : word;
  };
  const words = [command!.program, ...given].map(onCluster);
  const isOurs = words[0] === flags.node;
  const says =
    engine.launch.package === undefined || isOurs
      ? [...words.slice(0, 2), '--version']
      : words[1] === '-m'
        ? [words[0]!, '-c', `import ${engine.launch.package} as it; print(it.__version__)`]
        : [words[0]!, '--version'];
  return { engine: engine.name, program: says, words, environment };
}

function volumeOf({ claim, sharedDisk }: RayFlags) {
  if (claim === undefined) {
    if (sharedDisk)
      throw new ConfigError('--claim is missing; give NAME=PATH of a volume claim, or --no-shared-disk');
    return undefined;
  }
  const [, name, path] = /^([\w.-]+)=(\/.*)$/.exec(claim) ?? [];
  if (name === undefined) throw new ConfigError(`--claim is ${claim}; use NAME=PATH, the path absolute`);
  return { claim: name, path: path! };
}

/** What the cluster's processes are told by their environment. Names of secrets are printed, values never. */
function environmentOf({ env, secret }: Pick<RayFlags, 'env' | 'secret'>): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const pair of env) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined) throw new ConfigError(`--env is ${pair}; use NAME=VALUE`);
    environment[name] = value!;
  }
  for (const name of secret) {
    const value = process.env[name];
    keepSecret(value);
    if (value !== undefined) environment[name] = value;
    console.error(
      value === undefined
        ? `${name} is not set here: the one of the cluster's nodes is used`
        : `${name} is sent with the job; whoever may ask Ray about the job can read it`,
    );
  }
  return environment;
}

/** The driver and the trainer's worker, so that nodes need neither. */
function pythonFiles(): ZipEntry[] {
  return ['rollcall_ray', 'rollcall_torch'].flatMap((name) =>
    readdirSync(join(packageFolder(), name))
      .filter((file) => file.endsWith('.py'))
      .map((file) => ({ name: `${name}/${file}`, data: readFileSync(join(packageFolder(), name, file)) })),
  );
}

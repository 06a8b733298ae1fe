/** What the driver on a cluster is told (python/rollcall_ray): places, processes, and what each needs to see. */
import { isAbsolute, relative } from 'node:path';
import { stringify } from 'yaml';
import { ConfigError } from '../errors.ts';
import type { Layout } from './layout.ts';

export interface PlannedProcess {
  /** `@PORT@`, `@SERVERS@`, `@TRAINER@`, `@BRING@` and `@PYTHON@` are filled in on the cluster. */
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export interface Plan {
  readonly id: string;
  readonly resume: boolean;
  /** How often the control plane is started again. */
  readonly restarts: number;
  readonly runDir: string;
  /** Folder of this package on the cluster. */
  readonly rollcall: string;
  /** A folder that every place must see; null where the run needs none. */
  readonly shared: string | null;
  /** What every place must have. */
  readonly paths: readonly string[];
  /** Environment variables that must be set on the cluster, by name. */
  readonly secrets: readonly string[];
  readonly places: readonly (Layout['places'][number] & {
    /** Commands by which a place says what it has. */
    readonly programs: Readonly<Record<string, readonly string[]>>;
  })[];
  readonly control: PlannedProcess & { readonly place: string };
  readonly trainer: (PlannedProcess & { readonly ranks: readonly string[] }) | null;
  readonly servers: readonly (PlannedProcess & Layout['servers'][number])[];
}

type Values = Readonly<Record<string, unknown>>;

export interface RunToPlan {
  readonly id: string;
  readonly resume: boolean;
  readonly sharedDisk: boolean;
  readonly runDir: string;
  readonly model: string;
  /** Options that were set, by dotted path. */
  readonly values: Values;
  readonly layout: Layout;
  readonly secrets: readonly string[];
  /** On the cluster. */
  readonly rollcall: string;
  readonly node: string;
  /** Where the control plane reads the run, on the cluster. */
  readonly file: string;
  /** Absent: this process trains. */
  readonly trainer: Values | undefined;
  /** Absent: they are not placed here. */
  readonly server: { readonly engine: string; readonly program: readonly string[] } & Partial<PlannedProcess>;
}

export const RUN_FILE = '.rollcall/run.yaml';
export const PLAN_FILE = '.rollcall/plan.json';
export const ENTRYPOINT = (python: string) => `${python} -m rollcall_ray ${PLAN_FILE}`;
const CONTROL_RESTARTS = 20;

/** Options of the PyTorch trainer that are about starting it; the rest stay with the control plane. */
const OF_STARTING = ['python', 'ranks', 'device', 'threads', 'torchrun', 'environment', 'url', 'token'];
/** Options about servers that the plan has used. */
const OF_STARTED_SERVERS = 'portStart replicas tensorParallel memoryShare program flags logLevel'.split(' ');

export function planRun(run: RunToPlan): Plan {
  const { layout, rollcall, node } = run;
  if (!isAbsolute(run.runDir)) {
    throw new ConfigError(
      `runDir is ${run.runDir}; on a cluster it must be absolute (--run), because the working directory there goes with the job`,
    );
  }
  const program = [node, `${rollcall}/bin/rollcall.js`];
  const hasServers = layout.servers.length > 0;
  const needsBringing = hasServers && (!run.sharedDisk || !run.trainer);
  return {
    id: run.id,
    resume: run.resume,
    restarts: CONTROL_RESTARTS,
    runDir: run.runDir,
    rollcall,
    shared: run.sharedDisk && (run.trainer || hasServers) ? weightsDirectory(run) : null,
    paths: isAbsolute(run.model) || run.model.startsWith('.') ? [run.model] : [],
    secrets: run.secrets,
    places: layout.places.map((place) => ({ ...place, programs: programsOf(run, place.name, program) })),
    control: {
      place: layout.control,
      words: [
        ...[...program, 'train', run.file],
        ...(hasServers ? ['servers.urls=@SERVERS@'] : []),
        ...(run.trainer ? ['trainer.options.url=@TRAINER@'] : []),
        ...(needsBringing ? ['servers.bring=@BRING@'] : []),
      ],
      environment: {},
    },
    trainer: run.trainer ? { ...rankProcess(run.trainer), ranks: layout.ranks } : null,
    servers: layout.servers.map((server) => ({
      words: run.server.words ?? [],
      environment: run.server.environment ?? {},
      ...server,
    })),
  };
}

/** Beside the run directory: on the shared disk, or on the node of the trainer, from where it is brought. */
const weightsDirectory = ({ runDir }: RunToPlan) => `${runDir}.weights`;

function programsOf({ layout, trainer, server }: RunToPlan, place: string, rollcall: readonly string[]) {
  const torch = [
    pythonOf(trainer ?? {}),
    '-c',
    'import torch, transformers; print(torch.__version__, "with", torch.cuda.device_count(), "GPUs")',
  ];
  return {
    ...(layout.control === place ? { rollcall: [...rollcall, '--version'] } : {}),
    ...(layout.ranks.includes(place) ? { torch } : {}),
    ...(layout.servers.some((one) => one.place === place) ? { [server.engine]: server.program } : {}),
  };
}

const pythonOf = ({ python }: Values) => (typeof python === 'string' ? python : '@PYTHON@');

function rankProcess(options: Values): PlannedProcess {
  const { device, threads, secondsPerExchange, environment } = options;
  return {
    words: [
      ...[pythonOf(options), '-m', 'rollcall_torch'],
      ...['--host', '0.0.0.0', '--port', '@PORT@', '--seconds-to-connect', '3600'],
      ...(device === undefined ? [] : ['--device', String(device)]),
      ...(threads === undefined ? [] : ['--threads', String(threads)]),
      ...(secondsPerExchange === undefined ? [] : ['--seconds-per-exchange', String(secondsPerExchange)]),
    ],
    environment: (environment ?? {}) as Readonly<Record<string, string>>,
  };
}

/** The run as the control plane reads it on the cluster: our words, with what the plan has placed taken out. */
export function runFile(run: RunToPlan, workingDirectory: string): string {
  const { layout, trainer } = run;
  const kept = Object.entries(run.values).filter(
    ([path]) =>
      !/^(cluster\.|resume$|trainer\.options)/.test(path) &&
      !(layout.servers.length > 0 && OF_STARTED_SERVERS.includes(path.replace(/^servers\./, ''))),
  );
  const options = Object.entries(trainer ?? {}).filter(([name]) => !OF_STARTING.includes(name));
  const nested: Record<string, unknown> = {};
  for (const [path, value] of [
    ...kept.map(([path, value]) => [path, movable(value, workingDirectory)] as const),
    ['runDir', run.runDir] as const,
    ...(layout.servers.length > 0
      ? ([
          ['servers.mode', 'server'],
          ['servers.engine', run.server.engine],
        ] as const)
      : []),
    ...(trainer
      ? ([
          ['trainer.name', 'torch'],
          ['trainer.options', { weightsDirectory: weightsDirectory(run), ...Object.fromEntries(options) }],
        ] as const)
      : []),
  ]) {
    put(nested, path.split('.'), value);
  }
  return stringify(nested);
}

/** A file of the working directory has another place on the cluster. */
function movable(value: unknown, directory: string): unknown {
  if (Array.isArray(value)) return value.map((one) => movable(one, directory));
  const isInside = typeof value === 'string' && value.startsWith(`${directory}/`);
  return isInside ? relative(directory, value) : value;
}

function put(target: Record<string, unknown>, [name, ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) target[name!] = value;
  else {
    target[name!] ??= {};
    put(target[name!] as Record<string, unknown>, rest, value);
  }
}

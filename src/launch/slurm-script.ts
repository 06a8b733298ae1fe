/** A run as an sbatch script: what is needed of the cluster goes into a template that is plain bash. */
import { ConfigError } from '../errors.ts';

/** What a job runs, and on how many nodes. */
export interface SlurmPlan {
  readonly name: string;
  /** Where it was launched; every node must see it, and the run directory, under the same path. */
  readonly directory: string;
  readonly runDir: string;
  /** Starts the control plane; words for addresses are added on the cluster. */
  readonly control: readonly string[];
  readonly resume: boolean;
  /** Inference servers; absent where the run samples in its own process. */
  readonly servers?: {
    readonly replicas: number;
    readonly perNode: number;
    /** GPUs of one; 0: it runs on CPUs. */
    readonly gpusEach: number;
    readonly gpusPerNode: number;
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
    /** For an engine that does not read its key from the environment. */
    readonly keyFlag?: string;
  };
  /** The PyTorch trainer; absent where the control plane trains. */
  readonly trainer?: {
    readonly nodes: number;
    readonly ranksPerNode: number;
    readonly gpusPerNode: number;
    readonly python: readonly string[];
    readonly words: readonly string[];
  };
  /** Three groups of nodes in one heterogeneous job, instead of one allocation that is split. */
  readonly heterogeneous: boolean;
  /** Seconds before the time limit at which the job is told to save. */
  readonly warnSeconds: number;
  /** More words for sbatch, such as `--account=me`. */
  readonly sbatch: readonly string[];
}

const PLACES = ['directives', 'settings', 'nodes'] as const;

/** Fills a template; one that lacks a place is refused, because its job would run something else. */
export function slurmScript(template: string, plan: SlurmPlan): string {
  const parts = { directives: directives(plan), settings: settings(plan), nodes: nodes(plan) };
  for (const place of PLACES) {
    const times = template.split(`{{${place}}}`).length - 1;
    if (times !== 1)
      throw new ConfigError(
        `the template has {{${place}}} ${times} times; it needs it once, on its own line`,
      );
  }
  // A function, because text may hold `$&`.
  return template.replace(
    /\{\{(\w+)\}\}/g,
    (whole, place: string) => parts[place as keyof typeof parts] ?? whole,
  );
}

/** Nodes of each kind. The control plane has one of its own unless the trainer's first node takes it. */
function nodesOf({ servers, trainer, heterogeneous }: SlurmPlan) {
  const replicas = servers ? Math.ceil(servers.replicas / servers.perNode) : 0;
  const trainers = trainer?.nodes ?? 0;
  return { control: heterogeneous || trainers === 0 ? 1 : 0, trainers, replicas };
}

function directives(plan: SlurmPlan): string {
  const { control, trainers, replicas } = nodesOf(plan);
  const gpus = { servers: plan.servers?.gpusPerNode ?? 0, trainer: plan.trainer?.gpusPerNode ?? 0 };
  const lines = [
    `--job-name=${plan.name}`,
    `--output=${plan.runDir}/launch/job-%j.log`,
    '--open-mode=append',
    '--requeue',
    `--signal=B:USR1@${plan.warnSeconds}`,
  ];
  const group = (count: number, each: number) => [
    `--nodes=${count}`,
    '--ntasks-per-node=1',
    '--exclusive',
    ...(each > 0 ? [`--gres=gpu:${each}`] : []),
    ...plan.sbatch, // groups of a heterogeneous job inherit nothing from the first
  ];
  if (!plan.heterogeneous) {
    lines.push(...group(control + trainers + replicas, Math.max(gpus.servers, gpus.trainer)));
    return lines.map((line) => `#SBATCH ${line}`).join('\n');
  }
  const groups = [
    group(control, 0),
    ...(trainers > 0 ? [group(trainers, gpus.trainer)] : []),
    ...(replicas > 0 ? [group(replicas, gpus.servers)] : []),
  ];
  const written = groups.map((words) => words.map((word) => `#SBATCH ${word}`).join('\n'));
  const shared = lines.map((line) => `#SBATCH ${line}`).join('\n');
  return `${shared}\n${written.join('\n#SBATCH hetjob\n')}`;
}

function settings(plan: SlurmPlan): string {
  const { servers, trainer } = plan;
  const environment = Object.entries(servers?.environment ?? {}).map(([name, value]) => `${name}=${value}`);
  return [
    `directory=${quote(plan.directory)}`,
    `run=${quote(plan.runDir)}`,
    'logs=$run/launch',
    `control_command=${list(plan.control)}`,
    `resume=${plan.resume ? '--resume' : ''}`,
    `replicas=${servers?.replicas ?? 0} replicas_per_node=${servers?.perNode ?? 1}`,
    `gpus_per_node=${servers?.gpusPerNode ?? 0} gpus_per_replica=${servers?.gpusEach ?? 0}`,
    `replica_environment=${list(environment)}`,
    `replica_command=${list(servers?.command ?? [])}`,
    `replica_key_flag=${servers?.keyFlag ?? ''}`,
    `trainer_nodes=${trainer?.nodes ?? 0} ranks_per_node=${trainer?.ranksPerNode ?? 0}`,
    `trainer_python=${list(trainer?.python ?? [])}`,
    `trainer_words=${list(trainer?.words ?? [])}`,
  ].join('\n');
}

function nodes(plan: SlurmPlan): string {
  const { control, trainers, replicas } = nodesOf(plan);
  if (!plan.heterogeneous) {
    const at = control + trainers;
    return [
      `# One allocation: ${control > 0 ? 'the control plane' : `the trainer and the control plane`} first, then the servers.`,
      'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
      `trainer_hosts=("\${hosts[@]:${control}:${trainers}}") on_trainer=()`,
      `replica_hosts=("\${hosts[@]:${at}:${replicas}}") on_replica=()`,
    ].join('\n');
  }
  const groups = [trainers > 0 ? 'trainer' : '', replicas > 0 ? 'replica' : ''].filter(Boolean);
  const missing = ['trainer', 'replica'].filter((name) => !groups.includes(name));
  return [
    '# A heterogeneous job: the control plane is group 0.',
    ...groups.flatMap((name, at) => [
      `mapfile -t ${name}_hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_${at + 1}")`,
      `on_${name}=(--het-group=${at + 1})`,
    ]),
    ...missing.map((name) => `${name}_hosts=() on_${name}=()`),
  ].join('\n');
}

const list = (words: readonly string[]) => `(${words.map(quote).join(' ')})`;

/** A word as bash reads it. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

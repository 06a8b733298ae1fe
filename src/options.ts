import type { Agent } from './agent/agent.ts';
import type { Limits } from './agent/limits.ts';
import type { ChatFormatOptions } from './chat/chat-format.ts';
import { type Dataset, isDataset } from './dataset/dataset.ts';
import type { SamplerOptions } from './dataset/sampler.ts';
import { ConfigError } from './errors.ts';
import type { ServerFactory } from './gateway/server-factory.ts';
import { readTree, shown } from './lib/setting.ts';
import { checkMode } from './modes/mode.ts';
import { type GivenOptions, PLAIN, type PlainOptions } from './options/plain-options.ts';
import type { Reward } from './reward/reward.ts';
import type { Algorithm } from './training/algorithm.ts';
import type { TrainerFactory } from './training/trainer.ts';
import type { Task } from './types.ts';
import type { Tracker } from './watch/tracker.ts';

/** Tool-call format, Jinja template text, and variables of the template such as `enable_thinking`. */
export type ChatOverrides = Pick<
  Partial<ChatFormatOptions>,
  'toolFormat' | 'template' | 'templateVariables' | 'keepThinking'
>;

/** What a run does: values, not settings. */
export interface RunParts<T = Task> {
  /** A directory in the Hugging Face layout, or a hub name. */
  readonly model: string;
  readonly tasks: Dataset<T>;
  /** Held-out tasks by name; one dataset is named `validation`. */
  readonly validation?: Dataset<T> | Readonly<Record<string, Dataset<T>>> | undefined;
  /** Which tasks come next; shuffled by default. */
  readonly order?: SamplerOptions | undefined;
  readonly agent: Agent<T>;
  readonly rewards: readonly Reward<T>[];
  readonly algorithm?: Algorithm | undefined;
  /** Where tokens come from; default the embedded engine in this process. */
  readonly servers?: ServerFactory | undefined;
  /** What trains; default the embedded engine in this process. */
  readonly trainer?: TrainerFactory | undefined;
  /** Overrides parts of the chat format that the model's files give. */
  readonly chat?: ChatOverrides | undefined;
  readonly runDir: string;
  /** Trackers that get a copy of the run's metrics; the run directory always has everything. */
  readonly trackers?: readonly Tracker[] | undefined;
  /** Where these come from, for `options.json`: a module, or options as data by dotted path. */
  readonly config?: RunSource | undefined;
  /** Stops the run at once; such a run can be resumed. To finish the step first, break out of the loop. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Sentences that cannot wait for the next report: a full disk, a damaged checkpoint. Without it they are warnings of Node. */
  readonly onNotice?: ((notice: string) => void) | undefined;
}

/** A run file that passed values, or the options that YAML and overrides gave. */
export type RunSource =
  | { readonly path: string; readonly sha256: string }
  | { readonly given: Readonly<Record<string, unknown>> };

/** How far a phase of a step has come. */
export interface Progress {
  readonly step: number;
  readonly phase: 'rollout' | 'training' | 'evaluation';
  readonly done: number;
  readonly total: number;
  readonly tokens?: number;
}

/** All options of `train`. Only `model`, `tasks`, `agent`, `rewards` and `runDir` have no default. */
export type TrainOptions<T = Task> = GivenOptions & RunParts<T>;
export type ResolvedOptions<T = Task> = PlainOptions & RunParts<T>;

const PART_NAMES: readonly (keyof RunParts)[] = [
  'model',
  'tasks',
  'validation',
  'order',
  'agent',
  'rewards',
  'algorithm',
  'servers',
  'trainer',
  'chat',
  'runDir',
  'trackers',
  'config',
  'signal',
  'onProgress',
  'onNotice',
];

/** Fills in defaults and checks every value; throws a ConfigError with the option's path and what would be right. */
export function resolveOptions<T>(given: TrainOptions<T>): ResolvedOptions<T> {
  const { model, tasks, agent, rewards, runDir } = given;
  for (const [name, value] of Object.entries({ model, tasks, agent, rewards, runDir })) {
    if (value === undefined) throw new ConfigError(`${name} is missing; train() needs it`);
  }
  checkDatasets(given);
  refuseDuplicates(
    'rewards',
    rewards.map((reward) => reward.name),
  );
  const parts = Object.fromEntries(
    PART_NAMES.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]),
  ) as unknown as RunParts<T>;
  const plain = Object.fromEntries(
    Object.entries(given).filter(([name]) => !PART_NAMES.includes(name as never)),
  );
  const resolved = resolvePlain(plain);
  checkMode(resolved.mode, resolved.tasksPerStep);
  const { warmupSteps, warmupShare } = resolved.optimizer;
  if (warmupSteps > 0 && warmupShare > 0) {
    throw new ConfigError(
      `optimizer.warmupSteps is ${warmupSteps} and optimizer.warmupShare is ${warmupShare}; give one, and 0 for the other`,
    );
  }
  return { ...resolved, ...parts };
}

/** Run files are not type-checked, and many users will try an array of rows first. */
export function checkDatasets<T>({
  tasks,
  validation = {},
}: Pick<TrainOptions<T>, 'tasks' | 'validation'>): void {
  const sets: Record<string, unknown> =
    isDataset(validation) || Array.isArray(validation) ? { tasks, validation } : { tasks, ...validation };
  for (const [name, set] of Object.entries(sets)) {
    if (Array.isArray(set)) throw new ConfigError(`${name} is an array; give arrayDataset(rows)`);
    if (!isDataset(set))
      throw new ConfigError(
        `${name} is ${shown(set)}; give a dataset, such as arrayDataset(rows) or jsonl(file)`,
      );
  }
}

/** The plain options alone: what YAML, overrides and `options.json` carry. */
export function resolvePlain(given: Readonly<Record<string, unknown>>): PlainOptions {
  return readTree(PLAIN, given, { alsoKnown: PART_NAMES });
}

function refuseDuplicates(what: string, names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw new ConfigError(`${what} has two named ${JSON.stringify(twice)}; names must differ`);
}

/** The limits of a run on servers whose context is known. */
export function limitsWithin<L extends Pick<Limits, 'contextTokens'>>(
  limits: L,
  serverContextTokens: number,
): L {
  return { ...limits, contextTokens: Math.min(limits.contextTokens, serverContextTokens) };
}

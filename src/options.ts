import type { Agent } from './agent/agent.ts';
import { DEFAULT_LIMITS, type Limits } from './agent/limits.ts';
import { DEFAULT_SAMPLING } from './agent/sampling.ts';
import type { ChatFormatOptions } from './chat/chat-format.ts';
import type { Dataset } from './dataset/dataset.ts';
import type { SamplerOptions } from './dataset/sampler.ts';
import { ConfigError } from './errors.ts';
import type { ServerFactory } from './gateway/server-factory.ts';
import { nearest } from './lib/nearest.ts';
import { checkMode, MODE_DEFAULTS, MODE_KINDS, type ModeKind } from './modes/mode.ts';
import type { Reward } from './reward/reward.ts';
import type { Algorithm } from './training/algorithm.ts';
import type { TrainerFactory } from './training/trainer.ts';
import type { Task } from './types.ts';
import type { Tracker } from './watch/tracker.ts';

/**
 * Every option of a run: its type, default, reason and check, in one table. What a run does (agent, tools,
 * rewards, algorithm, dataset) is passed as values beside it. Nothing starts before `resolveOptions` is content.
 */

interface Option<V> {
  readonly default: V;
  readonly reason: string;
  /** What is wrong with a value, or undefined. */
  readonly check: (value: V) => string | undefined;
}

/** `option(8, …)` is an option of numbers, not of eights. */
type Widened<V> = V extends number ? number : V extends boolean ? boolean : V;

const option = <V>(value: V, check: Option<Widened<V>>['check'], reason: string): Option<Widened<V>> => ({
  default: value as Widened<V>,
  reason,
  check,
});

const integerFrom = (least: number) => (value: number) =>
  Number.isInteger(value) && value >= least ? undefined : `use a whole number of ${least} or more`;
const numberIn = (least: number, most: number) => (value: number) =>
  value >= least && value <= most ? undefined : `use a number from ${least} to ${most}`;
const positive = (value: number) => (value > 0 ? undefined : 'use a number above 0');
const integerOrInfinity = (value: number) =>
  value === Number.POSITIVE_INFINITY ? undefined : integerFrom(1)(value);
const boolean = (value: boolean) => (typeof value === 'boolean' ? undefined : 'use true or false');
const anything = () => undefined;
const oneOf =
  <V>(...values: readonly V[]) =>
  (value: V) =>
    values.includes(value) ? undefined : `use one of ${values.map((one) => JSON.stringify(one)).join(', ')}`;

export const OPTIONS = {
  steps: option(100, integerFrom(0), 'Updates of the policy; a run is resumed, not restarted, to add more.'),
  tasksPerStep: option(
    32,
    integerFrom(1),
    'Enough groups that a step has some with both good and bad attempts.',
  ),
  attemptsPerTask: option(
    8,
    integerFrom(1),
    'The group a task is compared within; 8 is the usual compromise.',
  ),
  mode: {
    kind: option<ModeKind>(
      MODE_DEFAULTS.kind,
      oneOf(...MODE_KINDS),
      'When groups are rolled out; synchronous is on-policy and repeatable. docs/modes.md has the others.',
    ),
    staleness: option(
      MODE_DEFAULTS.staleness,
      integerFrom(0),
      'For asynchronous and partial: versions that the weights may be ahead of a group when it is trained.',
    ),
    extraTasks: option(
      MODE_DEFAULTS.extraTasks,
      integerFrom(0),
      'For partial, over-sample and tail-rounds: groups in progress beyond tasksPerStep.',
    ),
    extraAttempts: option(
      MODE_DEFAULTS.extraAttempts,
      integerFrom(0),
      'For over-sample and tail-rounds: attempts beyond attemptsPerTask; the first to end make the group.',
    ),
  },
  seed: option(1, integerFrom(0), 'The same seed gives the same run.'),
  resume: option(false, boolean, 'Continue the run in runDir from its latest checkpoint.'),
  concurrency: option(256, integerFrom(1), 'Trajectories in progress at once.'),
  trustPrompt: option(
    false,
    boolean,
    "Special-token text in a dataset's prompts becomes those tokens; off, so that data cannot forge turns.",
  ),
  limits: {
    turns: option(DEFAULT_LIMITS.turns, integerFrom(1), 'Replies per trajectory.'),
    answers: option(
      DEFAULT_LIMITS.answers,
      integerOrInfinity,
      'Rounds of tool results or user messages; bounded by turns.',
    ),
    tokensPerReply: option(DEFAULT_LIMITS.tokensPerReply, integerFrom(1), 'One reply.'),
    tokensPerTrajectory: option(
      DEFAULT_LIMITS.tokensPerTrajectory,
      integerFrom(1),
      'Replies and what answers them; the first prompt is not counted.',
    ),
    contextTokens: option(
      DEFAULT_LIMITS.contextTokens,
      positive,
      "One segment; never above the servers' own.",
    ),
    secondsPerTrajectory: option(
      DEFAULT_LIMITS.secondsPerTrajectory,
      positive,
      'A hung agent frees its slot.',
    ),
    secondsPerReply: option(
      DEFAULT_LIMITS.secondsPerReply,
      positive,
      'A reply that takes longer is cut there.',
    ),
    toolTimeoutMs: option(
      DEFAULT_LIMITS.toolTimeoutMs,
      positive,
      'A hung tool is told to the model as a problem.',
    ),
    callsPerTurn: option(DEFAULT_LIMITS.callsPerTurn, integerFrom(1), 'Tool calls run per reply.'),
    tokensPerToolResult: option(
      DEFAULT_LIMITS.tokensPerToolResult,
      integerFrom(1),
      'Longer results are shortened.',
    ),
  },
  sampling: {
    temperature: option(
      DEFAULT_SAMPLING.temperature,
      numberIn(0.01, 100),
      'Of training rollouts; 1 is the policy itself.',
    ),
    topP: option(
      DEFAULT_SAMPLING.topP,
      numberIn(0, 1),
      'Truncated sampling makes log-probs and policy disagree.',
    ),
    topK: option(DEFAULT_SAMPLING.topK, integerFrom(-1), '-1 is off.'),
    minP: option(DEFAULT_SAMPLING.minP, numberIn(0, 1), '0 is off.'),
    repetitionPenalty: option(DEFAULT_SAMPLING.repetitionPenalty, positive, '1 is off.'),
    presencePenalty: option(DEFAULT_SAMPLING.presencePenalty, numberIn(-2, 2), '0 is off.'),
    frequencyPenalty: option(DEFAULT_SAMPLING.frequencyPenalty, numberIn(-2, 2), '0 is off.'),
    stopStrings: option<readonly string[]>(
      DEFAULT_SAMPLING.stopStrings,
      anything,
      "Beside the model's own stop tokens.",
    ),
  },
  optimizer: {
    learningRate: option(
      1e-6,
      positive,
      'Full fine-tuning of a pretrained model; small fresh models take 1e-4 and more.',
    ),
    schedule: option<'constant' | 'linear' | 'cosine'>(
      'constant',
      oneOf('constant', 'linear', 'cosine'),
      'Short runs change little while the policy moves.',
    ),
    warmupSteps: option(
      0,
      integerFrom(0),
      "Adam's first steps are already small when gradients are clipped.",
    ),
    warmupShare: option(
      0,
      numberIn(0, 1),
      'The same as a share of all steps, where their number is not known beforehand; 0: warmupSteps counts.',
    ),
    finalShare: option(0, numberIn(0, 1), 'Share of the learning rate left at the last step of a schedule.'),
    beta1: option(0.9, numberIn(0, 1), "Adam's own."),
    beta2: option(0.999, numberIn(0, 1), "Adam's own."),
    epsilon: option(1e-8, positive, "Adam's own."),
    weightDecay: option(0.01, numberIn(0, 1), "AdamW's own; decoupled from the gradient."),
    clipNorm: option(1, numberIn(0, Number.POSITIVE_INFINITY), 'Global gradient norm; 0 is off.'),
    miniBatches: option(1, integerFrom(1), 'Updates per batch; 1 keeps every update on-policy.'),
    epochs: option(1, integerFrom(1), 'Passes over a batch.'),
    tokensPerMicroBatch: option(16_384, integerFrom(1), 'Bounds memory; does not change the gradient.'),
  },
  evaluation: {
    every: option(
      10,
      integerFrom(0),
      'Steps between held-out evaluations; 0 leaves only the first and the last.',
    ),
    before: option(true, boolean, 'Without a first point no curve shows what training did.'),
    tasks: option(200, integerFrom(1), 'At most so many tasks of each validation set.'),
    attempts: option(1, integerFrom(1), 'Attempts per task; more give mean, best and majority at k.'),
    temperature: option(0, numberIn(0, 100), '0 is greedy: what a user of the model would see.'),
  },
  checkpoints: {
    every: option(
      10,
      integerFrom(0),
      'Steps between checkpoints; the last step always leaves one. 0 leaves only that.',
    ),
    keep: option(2, integerFrom(1), 'One to resume from, one in case.'),
  },
  failures: {
    tolerateShare: option(0.5, numberIn(0, 1), 'More attempts of a step failing for one cause stop the run.'),
    retries: option(2, integerFrom(0), 'Tries after the first, of an environment or a reward that failed.'),
    notFinite: option<'skip' | 'stop'>(
      'skip',
      oneOf('skip', 'stop'),
      'A number that is not finite is named and set aside; it costs its update, or the run.',
    ),
  },
} as const;

type Values<Table> = {
  readonly [K in keyof Table]: Table[K] extends Option<infer V> ? V : Values<Table[K]>;
};
type Given<Table> = {
  readonly [K in keyof Table]?: (Table[K] extends Option<infer V> ? V : Given<Table[K]>) | undefined;
};

/** The plain, serialisable options, all of them set. */
export type PlainOptions = Values<typeof OPTIONS>;

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
  /** How the model's chat format is to be read, where its own files are not to decide. */
  readonly chat?: ChatOverrides | undefined;
  readonly runDir: string;
  /** Who else is told of the run; the run directory always has everything. */
  readonly trackers?: readonly Tracker[] | undefined;
  /** The module that passed these, for `options.json`. */
  readonly config?: { readonly path: string; readonly sha256: string } | undefined;
  /** Stops the run at once; a run stopped so is resumable. To finish the step first, break out of the loop. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** How far a phase of a step has come. */
export interface Progress {
  readonly step: number;
  readonly phase: 'rollout' | 'training' | 'evaluation';
  readonly done: number;
  readonly total: number;
  readonly tokens?: number;
}

/** All options of `train`. Only `model`, `tasks`, `agent`, `rewards` and `runDir` have no default. */
export type TrainOptions<T = Task> = Given<typeof OPTIONS> & RunParts<T>;
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

/** Run files are not type-checked, and an array of rows is what one thinks of first. */
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
        `${name} is ${show(set)}; give a dataset, such as arrayDataset(rows) or jsonl(file)`,
      );
  }
}

function isDataset(value: unknown): boolean {
  return typeof (value as { indexAt?: unknown } | null)?.indexAt === 'function';
}

/** The plain options alone: what YAML, overrides and `options.json` carry. */
export function resolvePlain(given: Readonly<Record<string, unknown>>): PlainOptions {
  return resolveTable(OPTIONS, given, '') as PlainOptions;
}

function resolveTable(
  table: object,
  given: Readonly<Record<string, unknown>>,
  path: string,
): Record<string, unknown> {
  for (const name of Object.keys(given)) {
    if (name in table) continue;
    const known = [...Object.keys(table), ...(path === '' ? PART_NAMES : [])];
    throw new ConfigError(`unknown option ${path}${name}; did you mean ${path}${nearest(name, known)}?`);
  }
  return Object.fromEntries(
    Object.entries(table).map(([name, entry]) => {
      const value = given[name];
      if (!isOption(entry)) {
        if (value !== undefined && (typeof value !== 'object' || value === null)) {
          throw new ConfigError(`${path}${name} is ${show(value)}; it is a group of options`);
        }
        return [name, resolveTable(entry, (value ?? {}) as Record<string, unknown>, `${path}${name}.`)];
      }
      if (value === undefined) return [name, entry.default];
      if (typeof value !== typeof entry.default) {
        throw new ConfigError(
          `${path}${name} is ${show(value)}; use a ${typeof entry.default}, such as ${show(entry.default)}`,
        );
      }
      const wrong = entry.check(value as never);
      if (wrong !== undefined) throw new ConfigError(`${path}${name} is ${show(value)}; ${wrong}`);
      return [name, value];
    }),
  );
}

function isOption(entry: unknown): entry is Option<unknown> {
  return typeof entry === 'object' && entry !== null && 'reason' in entry && 'check' in entry;
}

function refuseDuplicates(what: string, names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw new ConfigError(`${what} has two named ${JSON.stringify(twice)}; names must differ`);
}

function show(value: unknown): string {
  return typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
}

/** The limits of a run on servers whose context is known. */
export function limitsWithin<L extends Pick<Limits, 'contextTokens'>>(
  limits: L,
  serverContextTokens: number,
): L {
  return { ...limits, contextTokens: Math.min(limits.contextTokens, serverContextTokens) };
}

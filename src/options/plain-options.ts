import { ENDPOINT_RULES } from '../agent/endpoint.ts';
import { DEFAULT_LIMITS } from '../agent/limits.ts';
import { DEFAULT_SAMPLING } from '../agent/sampling.ts';
import {
  above,
  aboveOrInfinity,
  atLeast,
  between,
  flag,
  oneOf,
  orNull,
  pickTree,
  setting,
  type TreeGiven,
  type TreeValues,
  text,
  texts,
  wholeFrom,
  wholeOrInfinity,
} from '../lib/setting.ts';
import { MODE_DEFAULTS, MODE_KINDS } from '../modes/mode.ts';

/** The options that a program and a run file written as data share: numbers and words, no code. */
export const PLAIN = {
  steps: setting(wholeFrom(0), 100, 'Updates of the policy; a run is resumed, not restarted, to add more.'),
  tasksPerStep: setting(
    wholeFrom(1),
    32,
    'Enough groups that a step has some with both good and bad attempts.',
  ),
  attemptsPerTask: setting(
    wholeFrom(1),
    8,
    'Attempts are compared with the others at the same task; 8 is the usual compromise.',
  ),
  mode: {
    kind: setting(
      oneOf(...MODE_KINDS),
      MODE_DEFAULTS.kind,
      'When groups are rolled out; synchronous is on-policy and repeatable. docs/modes.md has the others.',
    ),
    staleness: setting(
      wholeFrom(0),
      MODE_DEFAULTS.staleness,
      'For asynchronous and partial: how many versions old a group may be when it is trained.',
    ),
    extraTasks: setting(
      wholeFrom(0),
      MODE_DEFAULTS.extraTasks,
      'For partial, over-sample and tail-rounds: groups in progress beyond tasksPerStep.',
    ),
    extraAttempts: setting(
      wholeFrom(0),
      MODE_DEFAULTS.extraAttempts,
      'For over-sample and tail-rounds: attempts beyond attemptsPerTask; the first to end make up the group.',
    ),
  },
  seed: setting(wholeFrom(0), 1, 'The same seed gives the same run.'),
  resume: setting(flag, false, 'Continue the run in runDir from its latest checkpoint.'),
  concurrency: setting(wholeFrom(1), 256, 'Trajectories in progress at once.'),
  trustPrompt: setting(
    flag,
    false,
    "Special-token text in a dataset's prompts becomes those tokens; off, so that data cannot forge turns.",
  ),
  limits: {
    turns: setting(wholeFrom(1), DEFAULT_LIMITS.turns, 'Replies per trajectory.'),
    answers: setting(
      wholeOrInfinity(1),
      DEFAULT_LIMITS.answers,
      'Rounds of tool results or user messages; bounded by turns.',
    ),
    tokensPerReply: setting(wholeFrom(1), DEFAULT_LIMITS.tokensPerReply, 'One reply.'),
    tokensPerTrajectory: setting(
      wholeFrom(1),
      DEFAULT_LIMITS.tokensPerTrajectory,
      'Replies, tool results and user messages; the first prompt is not counted.',
    ),
    contextTokens: setting(
      aboveOrInfinity(0),
      DEFAULT_LIMITS.contextTokens,
      'Tokens of one segment; never more than the servers allow.',
    ),
    secondsPerTrajectory: setting(
      aboveOrInfinity(0),
      DEFAULT_LIMITS.secondsPerTrajectory,
      'A hung agent frees its slot.',
    ),
    secondsPerReply: setting(
      aboveOrInfinity(0),
      DEFAULT_LIMITS.secondsPerReply,
      'A reply that takes longer is cut off.',
    ),
    toolTimeoutMs: setting(
      above(0),
      DEFAULT_LIMITS.toolTimeoutMs,
      'A tool that hangs is stopped, and the model reads that it timed out.',
    ),
    callsPerTurn: setting(wholeFrom(1), DEFAULT_LIMITS.callsPerTurn, 'Tool calls run per reply.'),
    tokensPerToolResult: setting(
      wholeFrom(1),
      DEFAULT_LIMITS.tokensPerToolResult,
      'Longer results are shortened.',
    ),
  },
  sampling: {
    temperature: setting(
      between(0.01, 100),
      DEFAULT_SAMPLING.temperature,
      'Temperature of training rollouts; 1 samples from the policy itself.',
    ),
    topP: setting(
      between(0, 1),
      DEFAULT_SAMPLING.topP,
      'Truncated sampling makes log-probs and policy disagree.',
    ),
    topK: setting(wholeFrom(-1), DEFAULT_SAMPLING.topK, '-1 is off.'),
    minP: setting(between(0, 1), DEFAULT_SAMPLING.minP, '0 is off.'),
    repetitionPenalty: setting(above(0), DEFAULT_SAMPLING.repetitionPenalty, '1 is off.'),
    presencePenalty: setting(between(-2, 2), DEFAULT_SAMPLING.presencePenalty, '0 is off.'),
    frequencyPenalty: setting(between(-2, 2), DEFAULT_SAMPLING.frequencyPenalty, '0 is off.'),
    stopStrings: setting(texts, DEFAULT_SAMPLING.stopStrings, "In addition to the model's own stop tokens."),
  },
  endpoint: {
    host: setting(text, '127.0.0.1', 'Only programs on this machine reach it; 0.0.0.0 opens it to others.'),
    port: setting(wholeFrom(0), 0, '0 takes a free one.'),
    publicUrl: setting(orNull(text), null, 'How clients elsewhere reach it; absent: http://HOST:PORT.'),
    sampling: setting(
      oneOf('force', 'exclude', 'refuse'),
      ENDPOINT_RULES.sampling,
      "A client's own temperature: the run's is used instead, or the reply is not trained, or the request is refused.",
    ),
    unknownFields: setting(
      oneOf('ignore', 'refuse'),
      ENDPOINT_RULES.unknownFields,
      'Fields without effect are counted; clients send many.',
    ),
    abandoned: setting(
      oneOf('exclude', 'train'),
      ENDPOINT_RULES.abandoned,
      'A reply that nobody received, or that was asked for again, has not earned its reward.',
    ),
    calls: setting(
      oneOf('whole', 'streamed'),
      ENDPOINT_RULES.calls,
      'In streams; most clients fail where arguments that they were given break off, and a policy in training breaks off often.',
    ),
    train: setting(texts, [], 'Names of the sub-agents that are trained; empty: all. `main` has no name.'),
  },
  optimizer: {
    learningRate: setting(
      above(0),
      1e-6,
      'Full fine-tuning of a pretrained model; small models with random weights need 1e-4 or more.',
    ),
    schedule: setting(
      oneOf('constant', 'linear', 'cosine'),
      'constant',
      'Short runs change little while the policy moves.',
    ),
    warmupSteps: setting(wholeFrom(0), 0, "Adam's first steps are already small when gradients are clipped."),
    warmupShare: setting(
      between(0, 1),
      0,
      'Warm-up as a share of all steps, for when their number is not known beforehand; 0: warmupSteps is used.',
    ),
    finalShare: setting(between(0, 1), 0, 'Share of the learning rate left at the last step of a schedule.'),
    beta1: setting(between(0, 1), 0.9, "Adam's own."),
    beta2: setting(between(0, 1), 0.999, "Adam's own."),
    epsilon: setting(above(0), 1e-8, "Adam's own."),
    weightDecay: setting(between(0, 1), 0.01, "AdamW's own; decoupled from the gradient."),
    clipNorm: setting(atLeast(0), 1, 'Global gradient norm; 0 is off.'),
    miniBatches: setting(wholeFrom(1), 1, 'Updates per batch; 1 keeps every update on-policy.'),
    epochs: setting(wholeFrom(1), 1, 'Passes over a batch.'),
    tokensPerMicroBatch: setting(wholeFrom(1), 16_384, 'Bounds memory; does not change the gradient.'),
  },
  evaluation: {
    every: setting(
      wholeFrom(0),
      10,
      'Steps between held-out evaluations; 0 leaves only the first and the last.',
    ),
    before: setting(flag, true, 'Without a first point no curve shows what training did.'),
    limit: setting(wholeFrom(1), 200, 'At most this many tasks of each validation set.'),
    attempts: setting(wholeFrom(1), 1, 'Attempts per task; more give mean, best and majority at k.'),
    temperature: setting(between(0, 100), 0, '0 is greedy: what a user of the model would see.'),
  },
  checkpoints: {
    every: setting(
      wholeFrom(0),
      10,
      'Steps between checkpoints; the last step always leaves one. 0 leaves only that.',
    ),
    keep: setting(wholeFrom(1), 2, 'Keep two: the latest, and one to fall back to.'),
    graceSeconds: setting(
      above(0),
      25,
      'After SIGTERM (preemption) the run saves and ends within this time; Kubernetes and Slurm kill after 30 s.',
    ),
  },
  disk: {
    gigabytes: setting(
      aboveOrInfinity(0),
      Number.POSITIVE_INFINITY,
      'The most that the run directory may take. Beyond it discarded steps, then trajectories of the oldest steps, then all checkpoints but the newest are removed when a checkpoint is written.',
    ),
    warnBelowGigabytes: setting(
      atLeast(0),
      1,
      'Less free space than this, or than two checkpoints take, is told with the step.',
    ),
    hoursForRoom: setting(
      atLeast(0),
      24,
      'A run over a full disk waits this long for room, and goes on by itself; 0 stops at once.',
    ),
  },
  failures: {
    tolerateShare: setting(
      between(0, 1),
      0.5,
      "If more than this share of a step's attempts fail for one cause, the run stops.",
    ),
    retries: setting(wholeFrom(0), 2, 'How often an environment or a reward that failed is tried again.'),
    notFinite: setting(
      oneOf('skip', 'stop'),
      'skip',
      'When a number is not finite, the batch is saved and reported; then the update is skipped, or the run stops.',
    ),
  },
} as const;

/** The plain, serialisable options, all of them set. */
export type PlainOptions = TreeValues<typeof PLAIN>;
/** The options as a user gives them: what is left out has its default. */
export type GivenOptions = TreeGiven<typeof PLAIN>;

/** The plain options among others. */
export const plainOf = (options: PlainOptions): PlainOptions => pickTree(PLAIN, options);

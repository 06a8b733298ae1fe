import type { PlainOptions } from '../options.ts';
import { SHAPING } from '../reward/shaping.ts';
import { ALGORITHM_SETTINGS, type DescribedAlgorithm } from '../training/algorithm-settings.ts';
import { TRACE_NAMES } from '../watch/trackers/by-name.ts';
import { SERVERS_ENGINES } from './engines.ts';
import {
  atLeast,
  boolean,
  maybe,
  number,
  oneOf,
  record,
  records,
  type Setting,
  setting,
  share,
  text,
  texts,
  wholeFrom,
} from './setting.ts';
import { TRAINER_NAMES } from './trainers.ts';

/**
 * What a run file written as data can say about the parts of a run: the model, the data, the algorithm, the agent and
 * its tools, the rewards, the servers, where it is logged. A TypeScript run file passes values instead. The plain
 * options (steps, limits, optimizer …) stand in src/options.ts.
 */
export const SETTINGS = {
  model: setting(
    '',
    text,
    'A folder in the Hugging Face layout, or a hub name. There is no sensible default.',
  ),
  runDir: setting(null as string | null, maybe(text), 'Absent: runs/PROJECT/EXPERIMENT.'),
  project: setting('rollcall', text, 'Groups runs in a tracker.'),
  experiment: setting('run', text, 'Names this run in a tracker.'),
  epochs: setting(
    null as number | null,
    maybe(wholeFrom(1)),
    'Passes over the tasks, instead of `steps`; known once the dataset is open.',
  ),
  tasks: {
    files: setting<readonly string[]>([], texts, 'Parquet, JSONL, JSON or CSV, read one after another.'),
    promptKey: setting('prompt', text, "verl's column."),
    imageKey: setting('images', text, "verl's column."),
    maxPromptTokens: setting(
      null as number | null,
      maybe(wholeFrom(1)),
      'Counting costs a pass over the data; the context limit holds anyway.',
    ),
    tooLong: setting(
      'error',
      oneOf('error', 'filter', 'left', 'right', 'middle'),
      'A prompt over the limit: to drop or cut data is a decision.',
    ),
    needToolsKwargs: setting(false, boolean, 'A row without tool arguments is an error.'),
    limit: setting(null as number | null, maybe(wholeFrom(1)), 'Only the first so many rows.'),
    skipBad: setting(false, boolean, 'Bad rows are passed over and counted; off, so that they are seen.'),
  },
  validation: {
    files: setting<readonly string[]>([], texts, 'Held-out tasks; without them nothing is evaluated.'),
  },
  order: {
    kind: setting(
      'shuffle',
      oneOf('shuffle', 'sequential', 'difficulty', 'easy-to-hard', 'zone'),
      'Every epoch in another random order.',
    ),
    column: setting(null as string | null, maybe(text), 'For difficulty: the column of numbers.'),
    hardFirst: setting(false, boolean, 'For difficulty: easy tasks first.'),
    low: setting(0.1, share, 'For zone: below this success a task teaches little.'),
    high: setting(0.9, share, 'For zone: above this success a task teaches little.'),
  },
  algorithm: ALGORITHM_SETTINGS,
  agent: {
    default: setting(
      'tool_agent',
      text,
      'For rows without agent_name. Tools given and never callable would be an error.',
    ),
    file: setting(
      null as string | null,
      maybe(text),
      'An agent-loop YAML: names, modules and their arguments.',
    ),
    module: setting(null as string | null, maybe(text), '`path.ts#export`, for all rows.'),
    config: setting<Readonly<Record<string, unknown>>>({}, record, 'Arguments of the module.'),
    stopOnToolSuccess: setting(false, boolean, 'Most tools are a step on the way.'),
    stopOnCorrect: setting(false, boolean, 'The reward is not known to the model in use.'),
  },
  tools: {
    file: setting(null as string | null, maybe(text), "A tool YAML in verl's form."),
    module: setting(null as string | null, maybe(text), 'A module whose exported tools are all offered.'),
    names: setting(null as readonly string[] | null, maybe(texts), 'Absent: all.'),
    list: setting<readonly unknown[]>(
      [],
      records,
      'Tools by name, description and parameters, here and now.',
    ),
    charactersPerResult: setting(
      null as number | null,
      maybe(wholeFrom(1)),
      'Tokens bound it (`limits.tokensPerToolResult`).',
    ),
    keep: setting(
      'both ends',
      oneOf('head', 'tail', 'both ends'),
      'What stays of a result that is too long.',
    ),
  },
  users: {
    file: setting(null as string | null, maybe(text), "Simulated users: an interaction YAML in verl's form."),
  },
  chat: {
    format: setting('auto', text, "How tool calls are written: the model's own."),
    templateOptions: setting<Readonly<Record<string, unknown>>>({}, record, 'Given to the chat template.'),
    template: setting(null as string | null, maybe(text), "A Jinja file instead of the model's own."),
  },
  rewards: {
    module: setting(null as string | null, maybe(text), 'Absent: the ready reward of the data source.'),
    name: setting('compute_score', text, 'Export of the module.'),
    config: setting<Readonly<Record<string, unknown>>>({}, record, 'Arguments of the reward.'),
    concurrency: setting(8, wholeFrom(1), 'Threads that run the module; started when needed.'),
    timeoutSeconds: setting(30, atLeast(0), 'A hung reward fails the attempt, not the run.'),
    limits: {
      concurrency: setting(null as number | null, maybe(wholeFrom(1)), 'Rewards asked at the same time.'),
      requestsPerMinute: setting(
        null as number | null,
        maybe(atLeast(0)),
        'For a service behind the reward.',
      ),
      tokensPerMinute: setting(null as number | null, maybe(atLeast(0)), 'For a service behind the reward.'),
      tokensPerRequest: setting(2000, wholeFrom(1), 'What a request counts against tokensPerMinute.'),
    },
    model: {
      url: setting(null as string | null, maybe(text), "Of a reward model's /classify, where one scores."),
      name: setting('', text, 'The model that it serves.'),
    },
    sandbox: {
      url: setting(null as string | null, maybe(text), 'run_code of a server; absent: code runs here.'),
      concurrency: setting(64, wholeFrom(1), 'Programs on the server at once.'),
      memoryMiB: setting(1024, wholeFrom(1), 'Of a program on the server.'),
    },
    shaping: {
      enabled: setting(false, boolean, 'A shaped reward is another task; say so.'),
      toolCallSuccess: setting(SHAPING.toolCallSuccess, number, 'Added once if a call succeeded.'),
      validReasoning: setting(SHAPING.validReasoning, number, 'Added once if the reasoning is valid.'),
      invalidToolCall: setting(SHAPING.invalidToolCall, number, 'Added for each call that could not be run.'),
      maxTurnsExceeded: setting(SHAPING.maxTurnsExceeded, number, 'Added if the turns ran out.'),
      redundantToolCall: setting(
        SHAPING.redundantToolCall,
        number,
        'Added for each call made before with the same arguments.',
      ),
      toolFormat: setting(SHAPING.toolFormat, number, 'Added once if every call was well formed.'),
    },
  },
  servers: {
    engine: setting(
      'embedded',
      oneOf(...SERVERS_ENGINES),
      'Runs without anything else; rollcall is the same engine in processes of its own (rollcall serve).',
    ),
    mode: setting(
      'standalone',
      oneOf('standalone', 'server'),
      'standalone: servers are started here. server: they are running, at `urls`.',
    ),
    urls: setting<readonly string[]>([], texts, 'For mode server.'),
    portStart: setting(30_000, wholeFrom(1), "SGLang's; each further server takes the next port."),
    replicas: setting(1, wholeFrom(1), 'Servers to start.'),
    tensorParallel: setting(1, wholeFrom(1), 'GPUs of one server.'),
    memoryShare: setting(0.5, share, 'Of GPU memory, for the engine.'),
    logLevel: setting('warning', oneOf('debug', 'info', 'warning', 'error'), 'Of the servers started here.'),
    timeoutSeconds: setting(60, atLeast(1), 'For calls that are no replies: pauses, load, small updates.'),
    secondsPerRequest: setting(
      null as number | null,
      maybe(atLeast(1)),
      'A reply that takes longer is asked for elsewhere; absent: the limits of the trajectory alone.',
    ),
    retries: setting(3, wholeFrom(0), 'Elsewhere, with the same ids.'),
    startSeconds: setting(300, atLeast(1), 'Loading a large model takes minutes.'),
    policy: setting(
      'none',
      oneOf('none', 'first-come', 'programs', 'longest-first'),
      'Every request is sent at once; with more trajectories than K/V memory holds, programs is faster.',
    ),
    ceiling: setting(
      false,
      boolean,
      'Requests per server follow the load it reports; off, because engines queue for themselves.',
    ),
  },
  trainer: {
    name: setting('embedded', oneOf(...TRAINER_NAMES), 'Trains on this machine, without anything else.'),
    options: setting<Readonly<Record<string, unknown>>>(
      {},
      record,
      'As the trainer of that name takes them; the embedded one: threads, lora, recompute.',
    ),
  },
  loggers: setting<readonly string[]>(['console'], texts, 'metrics.jsonl is always written.'),
  trace: {
    backend: setting(
      null as string | null,
      maybe(oneOf(...TRACE_NAMES)),
      'Traces always go to the run directory.',
    ),
    text: setting(false, boolean, 'Token ids alone are smaller.'),
    samplesPerStep: setting(null as number | null, maybe(wholeFrom(0)), 'Absent: all.'),
  },
} as const;

type Values<Table> = {
  readonly [K in keyof Table]: Table[K] extends Setting<infer V> ? V : Values<Table[K]>;
};

/** A run as data: the plain options and the settings of its parts, all of them set. */
export type DescribedRun = PlainOptions &
  Values<Omit<typeof SETTINGS, 'algorithm'>> & { readonly algorithm: DescribedAlgorithm };

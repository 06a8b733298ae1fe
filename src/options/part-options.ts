import {
  atLeast,
  flag,
  mapping,
  mappings,
  number,
  oneOf,
  orNull,
  setting,
  share,
  text,
  texts,
  wholeFrom,
} from '../lib/setting.ts';
import { SHAPING } from '../reward/shaping.ts';
import { ALGORITHM_SETTINGS } from '../training/algorithm-settings.ts';
import { TRACE_NAMES } from '../watch/trackers/by-name.ts';
import { SERVERS_ENGINES } from './engines.ts';
import { TRAINER_NAMES } from './trainers.ts';

/**
 * What a run file written as data says about the parts of a run, which a TypeScript run file passes as values: the
 * model, the data, the algorithm, the agent and its tools, the rewards, the servers, where it is logged.
 */
export const PARTS = {
  model: setting(
    text,
    '',
    'A folder in the Hugging Face layout, or a hub name. There is no sensible default.',
  ),
  runDir: setting(orNull(text), null, 'Absent: runs/PROJECT/EXPERIMENT.'),
  project: setting(text, 'rollcall', 'Groups runs in a tracker.'),
  experiment: setting(text, 'run', 'Names this run in a tracker.'),
  epochs: setting(
    orNull(wholeFrom(1)),
    null,
    'Passes over the tasks, instead of `steps`; known once the dataset is open.',
  ),
  tasks: {
    files: setting(texts, [], 'Parquet, JSONL, JSON or CSV, read one after another.'),
    promptKey: setting(text, 'prompt', "verl's column."),
    imageKey: setting(text, 'images', "verl's column."),
    maxPromptTokens: setting(
      orNull(wholeFrom(1)),
      null,
      'Counting costs a pass over the data; the context limit holds anyway.',
    ),
    tooLong: setting(
      oneOf('error', 'filter', 'left', 'right', 'middle'),
      'error',
      'A prompt over the limit: to drop or cut data is a decision.',
    ),
    needToolsKwargs: setting(flag, false, 'A row without tool arguments is an error.'),
    limit: setting(orNull(wholeFrom(1)), null, 'Only the first so many rows.'),
    skipBad: setting(flag, false, 'Bad rows are passed over and counted; off, so that they are seen.'),
  },
  validation: {
    files: setting(texts, [], 'Held-out tasks; without them nothing is evaluated.'),
  },
  order: {
    kind: setting(
      oneOf('shuffle', 'sequential', 'difficulty', 'easy-to-hard', 'zone'),
      'shuffle',
      'Every epoch in another random order.',
    ),
    column: setting(orNull(text), null, 'For difficulty: the column of numbers.'),
    hardFirst: setting(flag, false, 'For difficulty: easy tasks first.'),
    low: setting(share, 0.1, 'For zone: below this success a task teaches little.'),
    high: setting(share, 0.9, 'For zone: above this success a task teaches little.'),
  },
  algorithm: ALGORITHM_SETTINGS,
  agent: {
    default: setting(
      text,
      'tool_agent',
      'For rows without agent_name. Tools given and never callable would be an error.',
    ),
    file: setting(orNull(text), null, 'An agent-loop YAML: names, modules and their arguments.'),
    module: setting(orNull(text), null, '`path.ts#export`, for all rows.'),
    config: setting(mapping, {}, 'Arguments of the module.'),
    stopOnToolSuccess: setting(flag, false, 'Most tools are a step on the way.'),
    stopOnCorrect: setting(flag, false, 'The reward is not known to the model in use.'),
  },
  tools: {
    file: setting(orNull(text), null, "A tool YAML in verl's form."),
    module: setting(orNull(text), null, 'A module whose exported tools are all offered.'),
    names: setting(orNull(texts), null, 'Absent: all.'),
    list: setting(mappings, [], 'Tools by name, description and parameters, here and now.'),
    charactersPerResult: setting(
      orNull(wholeFrom(1)),
      null,
      'Tokens bound it (`limits.tokensPerToolResult`).',
    ),
    keep: setting(
      oneOf('head', 'tail', 'both ends'),
      'both ends',
      'What stays of a result that is too long.',
    ),
  },
  users: {
    file: setting(orNull(text), null, "Simulated users: an interaction YAML in verl's form."),
  },
  chat: {
    format: setting(text, 'auto', "How tool calls are written: the model's own."),
    templateOptions: setting(mapping, {}, 'Given to the chat template.'),
    template: setting(orNull(text), null, "A Jinja file instead of the model's own."),
  },
  rewards: {
    module: setting(orNull(text), null, 'Absent: the ready reward of the data source.'),
    name: setting(text, 'compute_score', 'Export of the module.'),
    config: setting(mapping, {}, 'Arguments of the reward.'),
    concurrency: setting(wholeFrom(1), 8, 'Threads that run the module; started when needed.'),
    timeoutSeconds: setting(atLeast(0), 30, 'A hung reward fails the attempt, not the run.'),
    limits: {
      concurrency: setting(orNull(wholeFrom(1)), null, 'Rewards asked at the same time.'),
      requestsPerMinute: setting(orNull(atLeast(0)), null, 'For a service behind the reward.'),
      tokensPerMinute: setting(orNull(atLeast(0)), null, 'For a service behind the reward.'),
      tokensPerRequest: setting(wholeFrom(1), 2000, 'What a request counts against tokensPerMinute.'),
    },
    model: {
      url: setting(orNull(text), null, "Of a reward model's /classify, where one scores."),
      name: setting(text, '', 'The model that it serves.'),
    },
    sandbox: {
      url: setting(orNull(text), null, 'run_code of a server; absent: code runs here.'),
      concurrency: setting(wholeFrom(1), 64, 'Programs on the server at once.'),
      memoryMiB: setting(wholeFrom(1), 1024, 'Of a program on the server.'),
    },
    shaping: {
      enabled: setting(flag, false, 'A shaped reward is another task; say so.'),
      toolCallSuccess: setting(number, SHAPING.toolCallSuccess, 'Added once if a call succeeded.'),
      validReasoning: setting(number, SHAPING.validReasoning, 'Added once if the reasoning is valid.'),
      invalidToolCall: setting(number, SHAPING.invalidToolCall, 'Added for each call that could not be run.'),
      maxTurnsExceeded: setting(number, SHAPING.maxTurnsExceeded, 'Added if the turns ran out.'),
      redundantToolCall: setting(
        number,
        SHAPING.redundantToolCall,
        'Added for each call made before with the same arguments.',
      ),
      toolFormat: setting(number, SHAPING.toolFormat, 'Added once if every call was well formed.'),
    },
  },
  servers: {
    engine: setting(
      oneOf(...SERVERS_ENGINES),
      'embedded',
      'Runs without anything else; rollcall is the same engine in processes of its own (rollcall serve).',
    ),
    mode: setting(
      oneOf('standalone', 'server'),
      'standalone',
      'standalone: servers are started here. server: they are running, at `urls`.',
    ),
    urls: setting(texts, [], 'For mode server.'),
    portStart: setting(wholeFrom(1), 30_000, "SGLang's; each further server takes the next port."),
    replicas: setting(wholeFrom(1), 1, 'Servers to start.'),
    tensorParallel: setting(wholeFrom(1), 1, 'GPUs of one server.'),
    memoryShare: setting(share, 0.5, 'Of GPU memory, for the engine.'),
    program: setting(
      orNull(text),
      null,
      'The vllm program, or the python3 that has SGLang; absent: the one in PATH.',
    ),
    flags: setting(texts, [], 'Further words of the command line of servers started here.'),
    logLevel: setting(oneOf('debug', 'info', 'warning', 'error'), 'warning', 'Of the servers started here.'),
    timeoutSeconds: setting(atLeast(1), 60, 'For calls that are no replies: pauses, load, small updates.'),
    secondsPerRequest: setting(
      orNull(atLeast(1)),
      null,
      'A reply that takes longer is asked for elsewhere; absent: the limits of the trajectory alone.',
    ),
    retries: setting(wholeFrom(0), 3, 'Elsewhere, with the same ids.'),
    startSeconds: setting(atLeast(1), 300, 'Loading a large model takes minutes.'),
    policy: setting(
      oneOf('none', 'first-come', 'programs', 'longest-first'),
      'none',
      'Every request is sent at once; with more trajectories than K/V memory holds, programs is faster.',
    ),
    ceiling: setting(
      flag,
      false,
      'Requests per server follow the load it reports; off, because engines queue for themselves.',
    ),
  },
  trainer: {
    name: setting(oneOf(...TRAINER_NAMES), 'embedded', 'Trains on this machine, without anything else.'),
    options: setting(
      mapping,
      {},
      'As the trainer of that name takes them; the embedded one: threads, lora, recompute.',
    ),
  },
  loggers: setting(texts, ['console'], 'metrics.jsonl is always written.'),
  trace: {
    backend: setting(orNull(oneOf(...TRACE_NAMES)), null, 'Traces always go to the run directory.'),
    text: setting(flag, false, 'Token ids alone are smaller.'),
    samplesPerStep: setting(orNull(wholeFrom(0)), null, 'Absent: all.'),
  },
} as const;

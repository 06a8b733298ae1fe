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
      'What happens to a prompt over the limit; an error, because dropping or cutting data should be a decision.',
    ),
    needToolsKwargs: setting(flag, false, 'A row without tool arguments is an error.'),
    limit: setting(orNull(wholeFrom(1)), null, 'Use only this many rows, the first ones.'),
    skipBad: setting(flag, false, 'Bad rows are skipped and counted; off, so that they are noticed.'),
  },
  validation: {
    files: setting(texts, [], 'Held-out tasks; without them nothing is evaluated.'),
  },
  order: {
    kind: setting(
      oneOf('shuffle', 'sequential', 'difficulty', 'easy-to-hard', 'zone'),
      'shuffle',
      'Every epoch in a new random order.',
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
      'The agent for rows without agent_name; it can call the given tools.',
    ),
    file: setting(orNull(text), null, 'An agent-loop YAML: names, modules and their arguments.'),
    module: setting(orNull(text), null, '`path.ts#export`, for all rows.'),
    config: setting(mapping, {}, 'Arguments of the module.'),
    stopOnToolSuccess: setting(flag, false, 'Off: most tools are only a step towards the answer.'),
    stopOnCorrect: setting(flag, false, 'Off: in use, nobody tells the model that its answer is right.'),
    stopOnText: setting(texts, [], 'A reply with one of these is the last, such as `Final Answer`.'),
    stopOnRepetition: setting(orNull(wholeFrom(2)), null, 'This many equal replies in a row are the last.'),
    stopOnToolFailures: setting(
      orNull(wholeFrom(1)),
      null,
      'Ends after this many calls that could not be read or run; absent: only the limits end it.',
    ),
  },
  tools: {
    file: setting(orNull(text), null, "A tool YAML in verl's form."),
    module: setting(orNull(text), null, 'A module whose exported tools are all offered.'),
    names: setting(orNull(texts), null, 'Absent: all.'),
    list: setting(mappings, [], 'Tools given here by name, description and parameters.'),
    charactersPerResult: setting(
      orNull(wholeFrom(1)),
      null,
      'Absent: only tokens are limited (`limits.tokensPerToolResult`).',
    ),
    keep: setting(
      oneOf('head', 'tail', 'both ends'),
      'both ends',
      'Which part of a result that is too long is kept.',
    ),
  },
  users: {
    file: setting(orNull(text), null, "Simulated users: an interaction YAML in verl's form."),
  },
  chat: {
    format: setting(text, 'auto', "How tool calls are written; auto: as in the model's template."),
    templateOptions: setting(mapping, {}, 'Variables passed to the chat template.'),
    template: setting(orNull(text), null, "A Jinja file instead of the model's own."),
  },
  rewards: {
    module: setting(orNull(text), null, 'Absent: the ready reward of the data source.'),
    name: setting(text, 'compute_score', 'Export of the module.'),
    over: setting(
      oneOf('trajectory', 'batch'),
      'trajectory',
      'trajectory: compute_score for each as it ends. batch: compute_reward(data), all of a step at once.',
    ),
    config: setting(mapping, {}, 'Arguments of the reward.'),
    concurrency: setting(wholeFrom(1), 8, 'Threads that run the module; started when needed.'),
    timeoutSeconds: setting(atLeast(0), 30, 'A hung reward fails the attempt, not the run.'),
    limits: {
      concurrency: setting(orNull(wholeFrom(1)), null, 'Rewards computed at the same time.'),
      requestsPerMinute: setting(orNull(atLeast(0)), null, 'For a service behind the reward.'),
      tokensPerMinute: setting(orNull(atLeast(0)), null, 'For a service behind the reward.'),
      tokensPerRequest: setting(
        wholeFrom(1),
        2000,
        'Tokens that each request counts against tokensPerMinute.',
      ),
    },
    model: {
      url: setting(orNull(text), null, "URL of a reward model's /classify endpoint; then it scores."),
      name: setting(text, '', 'The model that it serves.'),
    },
    sandbox: {
      url: setting(orNull(text), null, "URL of a server's run_code; absent: code runs on this machine."),
      concurrency: setting(wholeFrom(1), 64, 'Programs on the server at once.'),
      memoryMiB: setting(wholeFrom(1), 1024, 'Memory limit of a program on the server.'),
    },
    shaping: {
      enabled: setting(flag, false, 'Off: a shaped reward changes the task, so it must be asked for.'),
      per: setting(
        oneOf('trajectory', 'turn'),
        SHAPING.per,
        'Whether the three rewards below are added once, so that more calls are not worth more, or for each turn.',
      ),
      toolCallSuccess: setting(number, SHAPING.toolCallSuccess, 'Added if a call succeeded.'),
      validReasoning: setting(number, SHAPING.validReasoning, 'Added if the reasoning is valid.'),
      toolFormat: setting(number, SHAPING.toolFormat, 'Added if every call was well formed.'),
      invalidToolCall: setting(number, SHAPING.invalidToolCall, 'Added for each call that could not be run.'),
      maxTurnsExceeded: setting(number, SHAPING.maxTurnsExceeded, 'Added if the turns ran out.'),
      redundantToolCall: setting(
        number,
        SHAPING.redundantToolCall,
        'Added for each call made before with the same arguments.',
      ),
    },
  },
  servers: {
    engine: setting(
      oneOf(...SERVERS_ENGINES),
      'embedded',
      'Needs nothing else installed; rollcall is the same engine in separate processes (rollcall serve).',
    ),
    mode: setting(
      oneOf('standalone', 'server'),
      'standalone',
      'standalone: servers are started here. server: they are running, at `urls`.',
    ),
    urls: setting(texts, [], 'For mode server.'),
    bring: setting(
      orNull(text),
      null,
      "For mode server without a shared disk: an address that brings a version's folder to a server's machine; `rollcall launch` sets it.",
    ),
    portStart: setting(wholeFrom(1), 30_000, "SGLang's; each further server takes the next port."),
    replicas: setting(wholeFrom(1), 1, 'Servers to start.'),
    tensorParallel: setting(wholeFrom(1), 1, 'GPUs of one server.'),
    memoryShare: setting(share, 0.5, 'Share of GPU memory for the engine.'),
    program: setting(
      orNull(text),
      null,
      'The vllm program, or the python3 that has SGLang; absent: the one in PATH.',
    ),
    flags: setting(texts, [], 'More command-line flags for servers started here.'),
    logLevel: setting(
      oneOf('debug', 'info', 'warning', 'error'),
      'warning',
      'Log level of the servers started here.',
    ),
    timeoutSeconds: setting(
      atLeast(1),
      60,
      'Time limit of calls other than replies: pauses, load, small updates.',
    ),
    secondsPerRequest: setting(
      orNull(atLeast(1)),
      null,
      "A reply that takes longer is requested from another server; absent: only the trajectory's limits apply.",
    ),
    seeds: setting(
      flag,
      true,
      'The same requests get the same replies where the engine can. vLLM draws for each seeded request alone, so false is faster there on a GPU.',
    ),
    retries: setting(wholeFrom(0), 3, 'Retries of a request, on another server, with the same ids.'),
    startSeconds: setting(atLeast(1), 300, 'Loading a large model takes minutes.'),
    weightsDirectory: setting(
      orNull(text),
      null,
      'Folder for new weights that servers on other machines see under the same path; absent: a temporary one of this machine.',
    ),
    policy: setting(
      oneOf('none', 'first-come', 'programs', 'longest-first'),
      'none',
      'Every request is sent at once; with more trajectories than K/V memory holds, programs is faster.',
    ),
    ceiling: setting(
      flag,
      false,
      'The number of requests per server follows the load it reports; off, because engines have their own queues.',
    ),
  },
  trainer: {
    name: setting(
      oneOf(...TRAINER_NAMES),
      'embedded',
      'Trains on this machine and needs nothing else installed.',
    ),
    options: setting(
      mapping,
      {},
      'Options of that trainer; for the embedded one: threads, lora, weights, recompute.',
    ),
  },
  cluster: {
    nodes: setting(
      wholeFrom(1),
      1,
      'Nodes of the trainer, each with trainer.options.ranks processes; `rollcall launch` places more than one.',
    ),
    serverNodes: setting(
      wholeFrom(0),
      0,
      'Nodes for servers alone, for `rollcall launch`; 0: servers share the GPUs of the trainer.',
    ),
    serverGpusPerNode: setting(
      orNull(wholeFrom(1)),
      null,
      'Of those nodes; absent: as many as the trainer has.',
    ),
  },
  loggers: setting(texts, ['console'], 'metrics.jsonl is always written.'),
  trace: {
    backend: setting(orNull(oneOf(...TRACE_NAMES)), null, 'Traces always go to the run directory.'),
    text: setting(flag, false, 'Token ids alone are smaller.'),
    samplesPerStep: setting(orNull(wholeFrom(0)), null, 'Absent: all.'),
  },
} as const;

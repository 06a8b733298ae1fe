import { ConfigError } from '../../errors.ts';
import { ENGINES } from '../../inference/engines.ts';
import { between, flag, number, orNull, text } from '../../lib/setting.ts';
import { always, anything, means, noEffect, notYet, same, shown, type VerlRow, word } from '../row.ts';
import { AGENT_ARGUMENTS } from './agent-arguments.ts';
import { NEEDS_SERVER_FLAG, orNoLimit } from './words.ts';

const LOG_LEVELS = {
  DEBUG: 'debug',
  INFO: 'info',
  WARN: 'warning',
  WARNING: 'warning',
  ERROR: 'error',
  debug: 'debug',
  info: 'info',
  warning: 'warning',
  error: 'error',
};
const OVER_SAMPLE = 'actor_rollout_ref.rollout.over_sample_rate';
const FORMATS = 'chatml, hermes, qwen3_coder, gpt-oss, glm, llama3_json, …';

export const ROLLOUT_KEYS: readonly VerlRow[] = [
  word(
    'actor_rollout_ref.rollout.name',
    'servers.engine',
    {
      ...Object.fromEntries(
        ENGINES.flatMap(({ name, verlNames = [] }) => verlNames.map((verl) => [verl, name])),
      ),
      embedded: 'embedded',
    },
    { note: 'embedded is ours: this machine, no server' },
  ),
  means(
    'actor_rollout_ref.rollout.mode',
    'servers.mode',
    text,
    ['standalone', 'server'],
    (mode) => {
      if (mode === 'standalone' || mode === 'server') return { 'servers.mode': mode };
      if (mode === 'async')
        return {
          note: 'actor_rollout_ref.rollout.mode=async: always so here; every trajectory advances on its own',
        };
      if (mode === 'sync')
        return {
          refuse:
            'actor_rollout_ref.rollout.mode=sync is not possible here (nor in verl any more): use async',
        };
      throw new ConfigError(
        `actor_rollout_ref.rollout.mode is ${shown(mode)}; use async, standalone or server`,
      );
    },
    {
      values: 'async, standalone, server',
      note: 'standalone: servers are started here; server: they run already',
    },
  ),
  word('actor_rollout_ref.rollout.sglang_rollout_mode', 'servers.mode', {
    local: 'standalone',
    server: 'server',
  }),
  means(
    'actor_rollout_ref.rollout.server.timeout',
    ['servers.timeoutSeconds', 'servers.secondsPerRequest'],
    number,
    [60, 30],
    (seconds) => ({ 'servers.timeoutSeconds': seconds, 'servers.secondsPerRequest': seconds }),
  ),
  means(
    'actor_rollout_ref.rollout.server.max_attempts',
    'servers.retries',
    number,
    [3, 5],
    (attempts) => ({ 'servers.retries': Math.max(0, attempts - 1) }),
    { note: 'retries are the attempts after the first' },
  ),
  same('actor_rollout_ref.rollout.server.max_start_wait_time', 'servers.startSeconds', [300, 600]),
  noEffect('actor_rollout_ref.rollout.server.retry_delay', 'the wait doubles with each try', [2, 1]),
  noEffect(
    'actor_rollout_ref.rollout.server.max_connections',
    '`concurrency` bounds the trajectories in progress',
    [1000, 100],
  ),
  same('actor_rollout_ref.rollout.port_start', 'servers.portStart', [30000, 30100]),
  same('actor_rollout_ref.rollout.nnodes', 'cluster.serverNodes', [0, 1], {
    note: 'placed by `rollcall launch`; 0: on the GPUs of the trainer',
  }),
  same('actor_rollout_ref.rollout.n_gpus_per_node', 'cluster.serverGpusPerNode', [8, 4], {
    note: 'placed by `rollcall launch`',
  }),
  same('actor_rollout_ref.rollout.tensor_model_parallel_size', 'servers.tensorParallel', [2, 1], {
    note: 'of servers started here',
  }),
  same('actor_rollout_ref.rollout.data_parallel_size', 'servers.replicas', [1, 2], {
    note: 'of servers started here',
  }),
  same('actor_rollout_ref.rollout.gpu_memory_utilization', 'servers.memoryShare', [0.6, 0.5], {
    note: 'of servers started here',
  }),
  word('actor_rollout_ref.rollout.log_level', 'servers.logLevel', LOG_LEVELS),
  same('actor_rollout_ref.rollout.n', 'attemptsPerTask', [4, 16]),
  same('actor_rollout_ref.rollout.temperature', 'sampling.temperature', [1, 0.7]),
  same('actor_rollout_ref.rollout.top_p', 'sampling.topP', [1, 0.9]),
  same('actor_rollout_ref.rollout.top_k', 'sampling.topK', [-1, 50]),
  same('actor_rollout_ref.rollout.repetition_penalty', 'sampling.repetitionPenalty', [1, 1.1]),
  means(
    'actor_rollout_ref.rollout.stop_strings',
    'sampling.stopStrings',
    anything,
    [['<|im_end|>', '##DONE##'], ['##DONE##']],
    (strings) => ({ 'sampling.stopStrings': Array.isArray(strings) ? strings : [String(strings)] }),
    { values: 'a list of text' },
  ),
  same('actor_rollout_ref.rollout.seed', 'seed', [42, 43]),
  means(
    'actor_rollout_ref.rollout.prompt_length',
    'tasks.maxPromptTokens',
    number,
    [512, 1024],
    (tokens) => ({ 'tasks.maxPromptTokens': tokens }),
  ),
  means(
    'actor_rollout_ref.rollout.response_length',
    ['limits.tokensPerTrajectory', 'limits.tokensPerReply'],
    number,
    [512, 1024],
    (tokens) => ({ 'limits.tokensPerTrajectory': tokens, 'limits.tokensPerReply': tokens }),
  ),
  means(
    'actor_rollout_ref.rollout.max_model_len',
    'limits.contextTokens',
    orNull(number),
    [null, 4096],
    (tokens) => ({ 'limits.contextTokens': tokens ?? Number.POSITIVE_INFINITY }),
  ),
  means('actor_rollout_ref.rollout.max_turns', 'limits.turns', orNull(number), [10, 5], (turns) => ({
    'limits.turns': orNoLimit(turns),
  })),
  means(
    'actor_rollout_ref.rollout.timeout_per_turn',
    ['limits.secondsPerReply', 'limits.toolTimeoutMs'],
    number,
    [30, 60],
    (seconds) => ({ 'limits.secondsPerReply': seconds, 'limits.toolTimeoutMs': seconds * 1000 }),
    { note: 'of a reply, and of a tool' },
  ),
  same('actor_rollout_ref.rollout.stop_on_tool_success', 'agent.stopOnToolSuccess', [true, false]),
  means('actor_rollout_ref.rollout.use_agent_loop', 'agent.default', flag, [true, false], (on) => ({
    'agent.default': on ? 'tool_agent' : 'single_turn_agent',
  })),
  same(
    'actor_rollout_ref.rollout.agent_loop_class',
    'agent.module',
    ['examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop', 'path.to.MyAgentLoop'],
    { values: 'path.ts#export, or the class name of a built-in agent' },
  ),
  ...AGENT_ARGUMENTS,
  same('actor_rollout_ref.rollout.agent.default_agent_loop', 'agent.default', [
    'tool_agent',
    'single_turn_agent',
  ]),
  same('actor_rollout_ref.rollout.agent.agent_loop_config_path', 'agent.file', ['agents.yaml', 'other.yaml']),
  noEffect(
    'actor_rollout_ref.rollout.agent.num_workers',
    'trajectories share one event loop; `concurrency` bounds them',
    [8, 1],
  ),
  notYet('actor_rollout_ref.rollout.agent.agent_loop_manager_class', null, 'a.B', 'a custom manager class'),
  notYet(
    'actor_rollout_ref.rollout.agent.custom_async_server.path',
    null,
    'a.py',
    'write an InferenceServer in TypeScript',
  ),
  notYet(
    'actor_rollout_ref.rollout.agent.custom_async_server.name',
    null,
    'A',
    'write an InferenceServer in TypeScript',
  ),
  means(
    'actor_rollout_ref.rollout.multi_turn.enable',
    'agent.default',
    flag,
    [true, false],
    (on) => ({ 'agent.default': on ? 'tool_agent' : 'single_turn_agent' }),
    { note: 'for rows without agent_name' },
  ),
  same('actor_rollout_ref.rollout.multi_turn.tool_config_path', 'tools.file', ['tools.yaml', 'other.yaml']),
  same('actor_rollout_ref.rollout.multi_turn.function_tool_path', 'tools.module', ['tools.ts', 'other.ts']),
  same('actor_rollout_ref.rollout.multi_turn.interaction_config_path', 'users.file', [
    'users.yaml',
    'other.yaml',
  ]),
  means(
    'actor_rollout_ref.rollout.multi_turn.format',
    'chat.format',
    text,
    ['chatml', 'hermes'],
    (format) => ({ 'chat.format': format === 'chatml' ? 'auto' : format }),
    { values: FORMATS, note: "chatml is the model's own" },
  ),
  means(
    'actor_rollout_ref.rollout.multi_turn.max_assistant_turns',
    'limits.turns',
    orNull(number),
    [5, null],
    (turns) => ({ 'limits.turns': orNoLimit(turns) }),
  ),
  means(
    'actor_rollout_ref.rollout.multi_turn.max_user_turns',
    'limits.answers',
    orNull(number),
    [5, null],
    (turns) => ({
      'limits.answers': turns === 0 || turns === null ? Number.POSITIVE_INFINITY : turns,
    }),
  ),
  means(
    'actor_rollout_ref.rollout.multi_turn.max_turns',
    'limits.turns',
    orNull(number),
    [5, null],
    (turns) => ({ 'limits.turns': orNoLimit(turns) }),
  ),
  same('actor_rollout_ref.rollout.multi_turn.max_parallel_calls', 'limits.callsPerTurn', [1, 2]),
  same(
    'actor_rollout_ref.rollout.multi_turn.max_tool_response_length',
    'tools.charactersPerResult',
    [256, 1024],
    { note: 'characters, as verl counts' },
  ),
  word(
    'actor_rollout_ref.rollout.multi_turn.tool_response_truncate_side',
    'tools.keep',
    { left: 'tail', right: 'head', middle: 'both ends' },
    { note: 'the side that is cut, as verl has meant it since May 2026; before, left kept the head' },
  ),
  noEffect(
    'actor_rollout_ref.rollout.multi_turn.tokenization_sanity_check_mode',
    'the self-test at the start compares ids, always',
    ['strict', 'disable'],
  ),
  always(
    'actor_rollout_ref.rollout.multi_turn.use_inference_chat_template',
    false,
    true,
    'what is trained is what was sampled',
  ),
  notYet(
    'actor_rollout_ref.rollout.multi_turn.num_repeat_rollouts',
    null,
    2,
    'repeated rollouts within a dialogue',
  ),
  notYet(
    'actor_rollout_ref.rollout.multi_turn.completion_callback',
    null,
    'a.B',
    'a Python callback; write an agent',
  ),
  word(
    'actor_rollout_ref.rollout.trace.backend',
    'trace.backend',
    { null: null, mlflow: 'mlflow', weave: 'weave' },
    { note: 'the run directory always has the traces' },
  ),
  same('actor_rollout_ref.rollout.trace.token2text', 'trace.text', [true, false]),
  same('actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker', 'trace.samplesPerStep', [null, 5]),
  means(
    'actor_rollout_ref.rollout.val_kwargs.temperature',
    'evaluation.temperature',
    number,
    [0, 0.6],
    (value) => ({ 'evaluation.temperature': value }),
  ),
  same('actor_rollout_ref.rollout.val_kwargs.n', 'evaluation.attempts', [1, 30]),
  means(
    'actor_rollout_ref.rollout.val_kwargs.do_sample',
    'evaluation.temperature',
    flag,
    [true, false],
    (sample, { option }) => ({
      'evaluation.temperature': sample ? option('evaluation.temperature') || 1 : 0,
    }),
    { late: true },
  ),
  notYet('actor_rollout_ref.rollout.val_kwargs.top_p', 1, 0.6, 'truncated sampling in evaluation only'),
  notYet('actor_rollout_ref.rollout.val_kwargs.top_k', -1, 20, 'truncated sampling in evaluation only'),
  means(
    OVER_SAMPLE,
    ['mode.kind', 'mode.extraAttempts', 'attemptsPerTask'],
    between(0, 0.99),
    [0, 0.1],
    (rate, { option }) => {
      const started = option('attemptsPerTask');
      const dropped = Math.floor(rate * started);
      if (dropped === 0) return { note: `${OVER_SAMPLE}=${rate}: of ${started} attempts none is dropped` };
      if (option('mode.kind') !== 'synchronous')
        return { refuse: `${OVER_SAMPLE}=${rate} cannot be had in the mode ${shown(option('mode.kind'))}` };
      return {
        'mode.kind': 'over-sample',
        'mode.extraAttempts': dropped,
        attemptsPerTask: started - dropped,
      };
    },
    {
      note: 'rollout.n attempts at a task are started, and this share of them, the slowest, is dropped',
      late: true,
      beside: { 'actor_rollout_ref.rollout.n': 16 },
    },
  ),
  always('actor_rollout_ref.rollout.calculate_log_probs', true, false, 'the engine always reports log-probs'),
  always(
    'actor_rollout_ref.rollout.logprobs_mode',
    'processed_logprobs',
    'raw_logprobs',
    'log-probs are those of the distribution that was sampled from',
  ),
  always('actor_rollout_ref.rollout.do_sample', true, false, 'training samples; evaluation is greedy'),
  always('actor_rollout_ref.rollout.ignore_eos', false, true, 'a reply ends where the model ends it'),
  always('actor_rollout_ref.rollout.skip_tokenizer_init', true, false, 'servers take and return token ids'),
  notYet(
    'actor_rollout_ref.rollout.full_determinism',
    false,
    true,
    'deterministic routing; the embedded engine is deterministic as it is',
  ),
  ...(
    [
      ['enforce_eager', true, false],
      ['free_cache_engine', true, false],
      ['enable_prefix_caching', true, false],
      ['enable_chunked_prefill', true, false],
      ['max_num_batched_tokens', 8192, 4096],
      ['max_num_seqs', 256, 128],
      ['multi_stage_wake_up', true, false],
      ['load_format', 'auto', 'dummy'],
      ['dtype', 'bfloat16', 'float16'],
      ['disable_log_stats', true, false],
      ['layered_summon', true, false],
      ['scheduling_policy', 'fcfs', 'priority'],
      ['pipeline_model_parallel_size', 1, 2],
      ['expert_parallel_size', 1, 2],
      ['update_weights_bucket_megabytes', 512, 256],
    ] as const
  ).map(([name, one, other]) =>
    noEffect(`actor_rollout_ref.rollout.${name}`, NEEDS_SERVER_FLAG, [one, other]),
  ),
  noEffect('actor_rollout_ref.rollout.engine_kwargs.*', NEEDS_SERVER_FLAG, [1, 2]),
  noEffect('actor_rollout_ref.rollout.prometheus.*', NEEDS_SERVER_FLAG, [true, false]),
  noEffect('actor_rollout_ref.rollout.disaggregation.*', NEEDS_SERVER_FLAG, [true, false]),
  noEffect(
    'actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu',
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch)',
    [32, 8],
  ),
  noEffect(
    'actor_rollout_ref.rollout.log_prob_micro_batch_size',
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch)',
    [32, 8],
  ),
  noEffect('actor_rollout_ref.rollout.log_prob_use_dynamic_bsz', 'micro-batches are made by tokens', [
    true,
    false,
  ]),
  noEffect(
    'actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu',
    'micro-batches are made by tokens (optimizer.tokensPerMicroBatch)',
    [16384, 8192],
  ),
];

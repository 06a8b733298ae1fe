import { number, text } from '../../lib/setting.ts';
import { anything, means, noEffect, notYet, same, shown, type VerlRow } from '../row.ts';

const SHAPING = 'rewards.shaping';

export const REWARD_KEYS: readonly VerlRow[] = [
  same('reward_shaping.enable', `${SHAPING}.enabled`, [true, false]),
  same('reward_shaping.per', `${SHAPING}.per`, ['trajectory', 'turn'], {
    note: 'ours: whether intermediate rewards are given once or for each turn',
  }),
  same('reward_shaping.intermediate_rewards.tool_call_success', `${SHAPING}.toolCallSuccess`, [0.1, 0.2]),
  same('reward_shaping.intermediate_rewards.valid_reasoning', `${SHAPING}.validReasoning`, [0.05, 0.1]),
  same('reward_shaping.penalties.invalid_tool_call', `${SHAPING}.invalidToolCall`, [-0.1, -0.2]),
  same('reward_shaping.penalties.max_turns_exceeded', `${SHAPING}.maxTurnsExceeded`, [-0.5, -1]),
  same('reward_shaping.penalties.redundant_tool_call', `${SHAPING}.redundantToolCall`, [-0.05, -0.1]),
  means(
    'reward_shaping.tool_format_reward',
    [`${SHAPING}.toolFormat`, `${SHAPING}.enabled`],
    number,
    [0.05, 0.1],
    (value) => ({ [`${SHAPING}.toolFormat`]: value, [`${SHAPING}.enabled`]: true }),
    { note: 'given alone it turns shaping on' },
  ),
  means(
    'tools',
    'tools.list',
    anything,
    [[{ name: 'calculator' }], [{ name: 'search' }]],
    (list) => ({ 'tools.list': list }),
    { values: 'a list of {name, description, parameters}' },
  ),
  ...['custom_reward_function', 'reward.custom_reward_function'].flatMap((prefix) => [
    same(`${prefix}.path`, 'rewards.module', ['reward.ts', 'other.ts'], {
      note: 'a module in TypeScript or JavaScript',
    }),
    means(
      `${prefix}.name`,
      ['rewards.name', 'rewards.over'],
      text,
      ['compute_score', 'compute_reward'],
      (name) => ({
        'rewards.name': name,
        ...(name === 'compute_reward' && { 'rewards.over': 'batch' }),
      }),
      { note: 'compute_reward(data) is given all trajectories of a step; any other name is a compute_score' },
    ),
    same(`${prefix}.reward_kwargs`, 'rewards.config', [{ a: 1 }, { a: 2 }], { values: 'a mapping' }),
  ]),
  ...['reward_model.reward_manager', 'reward.reward_manager.name', 'reward_manager'].map((key) =>
    means(
      key,
      ['algorithm.overlong.enabled', 'rewards.name', 'rewards.over'],
      text,
      ['naive', 'dapo'],
      (name, { option }) => {
        if (name === 'naive')
          return { note: `${key}=naive: always so here; each trajectory is scored as it ends` };
        if (name === 'rate_limited')
          return { note: `${key}=rate_limited: rewards.limits are heeded whenever they are given` };
        if (name === 'dapo') return { 'algorithm.overlong.enabled': true };
        if (name === 'gdpo')
          return { note: `${key}=gdpo: always so here; every number that compute_score gives has a name` };
        if (name === 'remote')
          return { note: `${key}=remote: always so here; rewards run in separate worker threads` };
        if (option('rewards.module') !== null) return { 'rewards.name': name, 'rewards.over': 'batch' };
        return {
          refuse: `${key}=${shown(name)}: not yet: write a reward in TypeScript, export it as ${name}(data), and give its module: custom_reward_function.path=FILE.ts`,
        };
      },
      {
        values: 'naive, dapo, gdpo, rate_limited, remote, or an export of custom_reward_function.path',
        note: 'an export is called as NAME(data) with all trajectories of a step',
        late: true,
      },
    ),
  ),
  ...[
    'reward_model.overlong_buffer',
    'reward_model.reward_kwargs.overlong_buffer_cfg',
    'reward.reward_kwargs.overlong_buffer_cfg',
  ].flatMap((prefix) => [
    same(`${prefix}.enable`, 'algorithm.overlong.enabled', [true, false], {
      late: true,
      note: 'overrides the reward manager',
    }),
    same(`${prefix}.len`, 'algorithm.overlong.bufferTokens', [4096, 512]),
    same(`${prefix}.penalty_factor`, 'algorithm.overlong.penalty', [1, 0.5]),
    noEffect(`${prefix}.log`, 'the penalty is always in the metrics', [true, false]),
  ]),
  same('reward_model.reward_kwargs.max_resp_len', 'algorithm.overlong.maxTokens', [16384, 8192]),
  same('reward.reward_kwargs.max_resp_len', 'algorithm.overlong.maxTokens', [16384, 8192]),
  same('reward.num_workers', 'rewards.concurrency', [8, 4]),
  same('reward.timeout', 'rewards.timeoutSeconds', [300, 60]),
  same('reward.max_concurrent', 'rewards.limits.concurrency', [1, 4]),
  same('reward.max_rpm', 'rewards.limits.requestsPerMinute', [60, 600]),
  same('reward.max_tpm', 'rewards.limits.tokensPerMinute', [100000, 1000]),
  same('reward.estimated_tokens_per_request', 'rewards.limits.tokensPerRequest', [2000, 500]),
  ...['reward_model', 'reward.reward_model'].map(
    (prefix): VerlRow => ({
      ...notYet(`${prefix}.enable`, false, true, 'start its server yourself and give rewards.model.url'),
      late: true,
      read: (on, { option }) => {
        if (on !== true) return { note: `${prefix}.enable=${shown(on)}: nothing to do` };
        return option('rewards.model.url') === null
          ? {
              refuse: `${prefix}.enable=true: not yet: start the reward model's server yourself (vllm serve … --task classify) and give rewards.model.url=http://HOST:PORT/classify`,
            }
          : { note: `${prefix}.enable=true: the reward model at rewards.model.url scores` };
      },
    }),
  ),
  same('reward_model.model.path', 'rewards.model.name', ['rm', 'other'], {
    note: 'as its server names it',
  }),
  same('reward.reward_model.model_path', 'rewards.model.name', ['rm', 'other'], {
    note: 'as its server names it',
  }),
  ...['enable_resource_pool', 'n_gpus_per_node', 'nnodes', 'rollout.*'].map((rest) =>
    noEffect(`reward.reward_model.${rest}`, "the reward model's server has its own machine", [null, 1]),
  ),
  noEffect(
    'reward.reward_manager.source',
    'reward.reward_manager.name is a ready manager, or an export of the module that is given',
    ['register', 'importlib'],
  ),
  same('reward.reward_manager.module.path', 'rewards.module', ['manager.ts', 'other.ts'], {
    note: 'a module in TypeScript or JavaScript',
  }),
  means(
    'reward.reward_manager.module.name',
    ['rewards.name', 'rewards.over'],
    text,
    ['my_task', 'other'],
    (name) => ({ 'rewards.name': name, 'rewards.over': 'batch' }),
    { note: 'called as NAME(data) with all trajectories of a step' },
  ),
  noEffect('reward_model.launch_reward_fn_async', 'rewards always run beside the rollout', [true, false]),
  ...['reward_model.sandbox_fusion', 'reward.sandbox_fusion'].flatMap((prefix) => [
    same(`${prefix}.url`, 'rewards.sandbox.url', [null, 'http://localhost:8080/run_code']),
    same(`${prefix}.max_concurrent`, 'rewards.sandbox.concurrency', [64, 8]),
    same(`${prefix}.memory_limit_mb`, 'rewards.sandbox.memoryMiB', [1024, 512]),
  ]),
];

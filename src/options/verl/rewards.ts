import { elsewhere, means, notYet, same, shown, type VerlRow } from '../verl-row.ts';

const SHAPING = 'rewards.shaping';

export const REWARD_KEYS: readonly VerlRow[] = [
  same('reward_shaping.enable', `${SHAPING}.enabled`, [true, false], { seeds: '004' }),
  same('reward_shaping.intermediate_rewards.tool_call_success', `${SHAPING}.toolCallSuccess`, [0.1, 0.2], {
    seeds: '004',
  }),
  same('reward_shaping.intermediate_rewards.valid_reasoning', `${SHAPING}.validReasoning`, [0.05, 0.1], {
    seeds: '004',
  }),
  same('reward_shaping.penalties.invalid_tool_call', `${SHAPING}.invalidToolCall`, [-0.1, -0.2], {
    seeds: '004',
  }),
  same('reward_shaping.penalties.max_turns_exceeded', `${SHAPING}.maxTurnsExceeded`, [-0.5, -1], {
    seeds: '004',
  }),
  same('reward_shaping.penalties.redundant_tool_call', `${SHAPING}.redundantToolCall`, [-0.05, -0.1], {
    seeds: '004',
  }),
  means(
    'reward_shaping.tool_format_reward',
    [`${SHAPING}.toolFormat`, `${SHAPING}.enabled`],
    [0.05, 0.1],
    (value: number) => ({ [`${SHAPING}.toolFormat`]: value, [`${SHAPING}.enabled`]: true }),
    { seeds: '004', note: 'given alone it turns shaping on' },
  ),
  means(
    'tools',
    'tools.list',
    [[{ name: 'calculator' }], [{ name: 'search' }]],
    (list: unknown) => ({ 'tools.list': list }),
    { seeds: '004', values: 'a list of {name, description, parameters}' },
  ),
  ...['custom_reward_function', 'reward.custom_reward_function'].flatMap((prefix) => [
    same(`${prefix}.path`, 'rewards.module', ['reward.ts', 'other.ts'], {
      note: 'a module in TypeScript or JavaScript',
    }),
    same(`${prefix}.name`, 'rewards.name', ['compute_score', 'score']),
    same(`${prefix}.reward_kwargs`, 'rewards.config', [{ a: 1 }, { a: 2 }], { values: 'a mapping' }),
  ]),
  ...['reward_model.reward_manager', 'reward.reward_manager.name', 'reward_manager'].map((key) =>
    means(
      key,
      'algorithm.overlong.enabled',
      ['naive', 'dapo'],
      (name: string, { option }) => {
        if (name === 'naive')
          return { note: `${key}=naive: always so here; each trajectory is scored as it ends` };
        if (name === 'rate_limited')
          return { note: `${key}=rate_limited: rewards.limits are heeded whenever they are given` };
        if (name === 'dapo')
          return { 'algorithm.overlong.enabled': (option('algorithm.overlong.enabled') as boolean) || true };
        return { refuse: `${key}=${shown(name)}: not yet: write a reward in TypeScript` };
      },
      { values: 'naive, dapo, rate_limited' },
    ),
  ),
  ...[
    'reward_model.overlong_buffer',
    'reward_model.reward_kwargs.overlong_buffer_cfg',
    'reward.reward_kwargs.overlong_buffer_cfg',
  ].flatMap((prefix) => [
    same(`${prefix}.enable`, 'algorithm.overlong.enabled', [true, false], {
      late: true,
      note: 'goes before the reward manager',
    }),
    same(`${prefix}.len`, 'algorithm.overlong.bufferTokens', [4096, 512]),
    same(`${prefix}.penalty_factor`, 'algorithm.overlong.penalty', [1, 0.5]),
    elsewhere(`${prefix}.log`, 'the penalty is always in the metrics', [true, false]),
  ]),
  same('reward_model.reward_kwargs.max_resp_len', 'algorithm.overlong.maxTokens', [16384, 8192]),
  same('reward.reward_kwargs.max_resp_len', 'algorithm.overlong.maxTokens', [16384, 8192]),
  same('reward.num_workers', 'rewards.concurrency', [8, 4]),
  same('reward.timeout', 'rewards.timeoutSeconds', [300, 60]),
  same('reward.max_concurrent', 'rewards.limits.concurrency', [1, 4]),
  same('reward.max_rpm', 'rewards.limits.requestsPerMinute', [60, 600]),
  same('reward.max_tpm', 'rewards.limits.tokensPerMinute', [100000, 1000]),
  same('reward.estimated_tokens_per_request', 'rewards.limits.tokensPerRequest', [2000, 500]),
  notYet(
    'reward_model.enable',
    false,
    true,
    'a reward model of your own weights; an LLM judge is a reward in TypeScript',
  ),
  notYet(
    'reward.reward_model.enable',
    false,
    true,
    'a reward model of your own weights; an LLM judge is a reward in TypeScript',
  ),
  elsewhere('reward_model.launch_reward_fn_async', 'rewards always run beside the rollout', [true, false]),
  notYet(
    'reward_model.sandbox_fusion.url',
    null,
    'http://localhost:8080',
    'code rewards over a sandbox server',
  ),
];

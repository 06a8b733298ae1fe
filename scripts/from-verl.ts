import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import type { VerlRow } from '../src/verl/row.ts';
import { VERL_TABLE } from '../src/verl/table.ts';

/** Writes docs/from-verl.md from the one table: `npm run docs:from-verl`. `--check` only compares. */
export const FROM_VERL = 'docs/from-verl.md';

const KINDS: Readonly<Record<VerlRow['kind'], string>> = {
  option: 'sets',
  always: 'always so',
  'no effect': 'no effect',
  'not yet': 'not yet',
};

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ') || '–';
const code = (text: string) => `\`${cell(text)}\``;

function table(rows: readonly VerlRow[]): string[] {
  return [
    '| key | values | here | note |',
    '| --- | --- | --- | --- |',
    ...rows.map((row) => {
      const here = row.kind === 'option' ? row.to.map(code).join(', ') : KINDS[row.kind];
      return `| ${code(row.key)} | ${cell(row.values)} | ${here} | ${cell(row.note)} |`;
    }),
  ];
}

const COMMANDS: readonly (readonly [string, string])[] = [
  ['python3 examples/data_preprocess/gsm8k.py', 'rollcall data gsm8k'],
  [
    'python3 examples/data_preprocess/gsm8k_multiturn_w_tool.py --local_save_dir DIR',
    'rollcall data gsm8k --style tool --local_save_dir DIR',
  ],
  [
    'python examples/data_preprocess/gsm8k_multiturn_w_interaction.py --local_save_dir DIR',
    'rollcall data gsm8k --style interaction --local_save_dir DIR',
  ],
  [
    'python examples/data_preprocess/gsm8k_tool_agent_loop.py --local_save_dir DIR',
    'rollcall data gsm8k --style agent-loop --local_save_dir DIR',
  ],
  ['python3 examples/data_preprocess/geo3k.py', 'rollcall data geo3k'],
  ['examples/data_preprocess/geo3k_multiturn_w_tool.py', 'rollcall data geo3k --style tool'],
  ['examples/data_preprocess/preprocess_search_r1_dataset.py', 'rollcall data search-r1'],
  ['a changed `make_map_fn` in a preparation script', 'rollcall data map FILE.ts IN.parquet OUT.parquet'],
  ['pd.read_parquet(FILE).iloc[0]', 'rollcall data show FILE'],
  ['python3 -m verl.trainer.main_ppo KEY=VALUE …', 'rollcall train KEY=VALUE …'],
  [
    'bash examples/sglang_multiturn/run_….sh KEY=VALUE',
    'rollcall train run_….sh KEY=VALUE (the script is read, not run)',
  ],
  ['--config-path DIR --config-name NAME +a=1 ~b', 'the same flags and words of rollcall train'],
  ['run_qwen2.5-3b_gsm8k_multiturn.sh', 'rollcall train recipes/gsm8k-multiturn/run.yaml'],
  ['run_qwen2.5-3b_gsm8k_multiturn_4xgpu.sh', 'rollcall train recipes/gsm8k-multiturn-4gpu/run.yaml'],
  [
    'run_qwen2.5-3b_gsm8k_multiturn_server.sh',
    'rollcall train recipes/gsm8k-server/run.yaml servers.urls=[URL]',
  ],
  ['run_qwen2.5-3b_gsm8k_multiturn_vllm_fsdp.sh', 'rollcall train recipes/gsm8k-vllm-fsdp/run.yaml'],
  ['run_qwen0.5b_gsm8k_multiturn_curriculum.sh', 'rollcall train recipes/gsm8k-curriculum/run.yaml'],
  ['run_qwen2.5-3b_gsm8k_tool_agent_mlflow.sh', 'rollcall train recipes/gsm8k-mlflow/run.yaml'],
  ['run_qwen2.5-0.5b_gsm8k_multiturn_w_interaction.sh', 'rollcall train recipes/gsm8k-interaction/run.yaml'],
  ['run_qwen3-4b_gsm8k_multiturn.sh', 'rollcall train recipes/qwen3-4b-agent-loop/run.yaml'],
  ['run_qwen3_4b_dapo_multiturn.sh', 'rollcall train recipes/dapo-multiturn/run.yaml'],
  ['gsm8k_toolcall_shaping', 'rollcall train recipes/shaping/run.yaml'],
  ['examples/tutorial/agent_loop_get_started', 'recipes/agent-loop-get-started'],
  ['recipe/stream_mode', 'rollcall train recipes/stream-mode/run.yaml'],
  ['recipe/langgraph_agent', 'rollcall train recipes/langgraph/run.yaml'],
  ['examples/grpo_trainer/run_qwen2-7b_seq_balance.sh', 'rollcall train recipes/grpo/run.yaml'],
  ['examples/ppo_trainer', 'rollcall train recipes/ppo/run.yaml'],
  [
    'geo3k/run_qwen2.5-3b_instruct_multiturn.sh, geo3k/run_geo3k_agent.py',
    'rollcall data geo3k --style tool, then rollcall train recipes/geo3k/run.yaml',
  ],
  ['search_r1_like/run_search_r1.sh', 'rollcall train recipes/search-r1/run.yaml'],
  ['the same, to see what it would do', 'rollcall train … --dry-run'],
  ['mlflow ui, weave', 'rollcall show RUN'],
];

const PARTS: readonly (readonly [string, string])[] = [
  ['AgentLoop, AgentLoopBase, AgentLoopWorker', 'Agent (`agent()`, `toolLoop()`)'],
  ['AsyncLLMServerManager, LLMServerClient', 'Gateway'],
  ['AsyncServer, SGLangHttpServer', 'Server (`InferenceServer`)'],
  ['ChatModel, ReactAgentLoop (LangGraph)', '`chatModel` of `rollcall/langchain`; `react_agent`'],
  ['BaseTool: create, execute, calc_reward, release', 'Tool: `open`, `run`, `score`, `close`'],
  ['OpenAIFunctionToolSchema', '`ToolSchema`'],
  ['BaseInteraction', 'simulated user'],
  ['RewardManager, compute_score', 'Reward (`reward()`)'],
  ['DataProto', 'Batch'],
  ['uid', 'Group'],
  ['AgentLoopOutput', 'Trajectory'],
  ['response_mask', '`trained`, one flag a token'],
  ['AbstractCurriculumSampler', '`Sampler`'],
  ['RLHFDataset', '`Dataset`'],
];

const DATA_COLUMNS: readonly (readonly [string, string])[] = [
  ['prompt (list of messages, or a list of typed parts)', '`prompt`'],
  ['data_source', '`dataSource`'],
  ['ability', '`ability`'],
  ['reward_model.ground_truth', '`groundTruth`'],
  ['agent_name', '`agentName`'],
  ['tools, extra_info.tool_selection', '`tools`'],
  ['extra_info.tools_kwargs (also tool_kwargs)', '`toolsKwargs`'],
  ['extra_info.interaction_kwargs', '`interactionKwargs`'],
  ['images (bytes or path), `<image>` in text', 'image parts of `prompt`'],
  ['extra_info', '`extraInfo`'],
];

const pairs = (
  left: string,
  right: string,
  rows: readonly (readonly [string, string])[],
  asCode: boolean,
) => [
  `| ${left} | ${right} |`,
  '| --- | --- |',
  ...rows.map(([one, other]) =>
    asCode ? `| ${code(one)} | ${code(other)} |` : `| ${cell(one)} | ${cell(other)} |`,
  ),
];

export function renderFromVerl(): string {
  const groups: readonly (readonly [string, (key: string) => boolean])[] = [
    ['data', (key) => key.startsWith('data.')],
    ['algorithm', (key) => key.startsWith('algorithm.')],
    ['actor, reference and model', (key) => /^actor_rollout_ref\.(?!rollout)/.test(key)],
    ['rollout', (key) => key.startsWith('actor_rollout_ref.rollout.')],
    ['rewards and tools', (key) => /^(reward|custom_reward|tools$)/.test(key)],
    [
      'trainer, critic and the rest',
      (key) => /^(critic|trainer|async_training|ray|hydra|defaults|global)/.test(key),
    ],
  ];
  const lines = [
    '<!-- Made by scripts/from-verl.ts from src/verl/table.ts; do not edit. -->',
    '',
    '# Coming from verl',
    '',
    'Your parquet files, tool YAML and dotted overrides work here. `rollcall train … --dry-run` prints what they',
    'resolve to, and which files or programs are missing. This page lists every key we know, what it means here, and what',
    'we do not support. The order is default < file < command line; defaults are ours (`rollcall options --explain`), not',
    "verl's. Giving the same option under verl's name and under ours in one place is an error.",
    '',
    'A name in the column **here** is our option. **always so**: it always works like this here, and another value is refused.',
    '**no effect**: accepted, with one line that says why nothing changes, or what it would need. **not yet**: understood,',
    'and `train` refuses any value but the one listed. An unknown key is an error that names the nearest known ones. In a',
    "YAML file `yes`, `no`, `on` and `off` mean true and false for verl's keys, as OmegaConf reads them; on the command line",
    'they are an error, because Hydra passes them as text, which Python treats as true.',
    '',
    '## Commands',
    '',
    ...pairs('verl', 'Rollcall', COMMANDS, true),
    '',
    'Keys marked *not yet* below are refused in these commands too.',
    '',
    '## Parts',
    '',
    ...pairs("verl's name", 'ours', PARTS, false),
    '',
    '## Columns of a dataset',
    '',
    ...pairs('column', 'field of a task', DATA_COLUMNS, false),
    '',
    '## Keys',
  ];
  const placed = new Set<VerlRow>();
  for (const [title, belongs] of groups) {
    const rows = VERL_TABLE.filter((row) => belongs(row.key));
    for (const row of rows) placed.add(row);
    lines.push('', `### ${title}`, '', ...table(rows));
  }
  const left = VERL_TABLE.filter((row) => !placed.has(row));
  if (left.length > 0) throw new Error(`no section for ${left.map((row) => row.key).join(', ')}`);
  return `${lines.join('\n')}\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const text = renderFromVerl();
  if (process.argv.includes('--check')) {
    if (readFileSync(FROM_VERL, 'utf8') !== text)
      throw new Error(`${FROM_VERL} is stale; npm run docs:from-verl`);
  } else writeFileSync(FROM_VERL, text);
}

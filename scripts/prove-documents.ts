/**
 * Runs what stands here for each command line of verl's documents about multi-turn rollout and the agent loop.
 * docs/verl-documents.md is the table that says what answers what. Data are a few made-up rows. Recipes are resolved, not trained
 * (`prove recipes` trains them); what the documents show as code or as rows is run with a tiny model. `--quick` changes nothing.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodePng } from 'rollcall/services';
import { main } from '../src/cli/main.ts';
import { toyData } from '../test/recipes.ts';
import { LONG, tinyModel, tinySeeingModel } from '../test/tiny-model.ts';
import { AGENT_LOOP, REWARD, ROWS, TOOLS } from './documents/snippets.ts';
import { type Aim, conclude, holds } from './verdict.ts';

const data = await toyData();
const folder = mkdtempSync(join(tmpdir(), 'rollcall-documents-'));
const gsm8k = ['--local_dataset_path', join(data, 'gsm8k')];
const inFolder = (name: string) => join(folder, name);
const file = (name: string, text: string) => {
  writeFileSync(inFolder(name), text);
  return inFolder(name);
};

/** The full command line of the README, as a shell passes it on. */
const FULL = [
  'algorithm.adv_estimator=grpo',
  `data.train_files=${inFolder('tool/train.parquet')}`,
  `data.val_files=${inFolder('tool/test.parquet')}`,
  'data.train_batch_size=256',
  'actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct',
  'actor_rollout_ref.rollout.name=sglang',
  'actor_rollout_ref.rollout.use_agent_loop=True',
  'actor_rollout_ref.rollout.tensor_model_parallel_size=2',
  'actor_rollout_ref.rollout.gpu_memory_utilization=0.6',
  'actor_rollout_ref.rollout.n=4',
  'actor_rollout_ref.actor.ppo_mini_batch_size=256',
  'actor_rollout_ref.actor.use_kl_loss=True',
  'actor_rollout_ref.actor.kl_loss_coef=0.001',
  'trainer.n_gpus_per_node=8',
  'trainer.total_epochs=20',
];
const script = file(
  'run_qwen2.5-3b_gsm8k_multiturn.sh',
  `set -x\nulimit -n 65535\nPROJECT_DIR="$(pwd)"\npython3 -m verl.trainer.main_ppo \\\n    ${FULL.join(' \\\n    ')} $@\n`,
);
const rollout = file(
  'rollout.yaml',
  `actor_rollout_ref:
  rollout:
    name: sglang
    mode: standalone
    port_start: 30000
    tensor_model_parallel_size: 2
    data_parallel_size: 1
    gpu_memory_utilization: 0.6
    use_agent_loop: True
    max_turns: 10
    stop_on_tool_success: True
`,
);
const shaping = file(
  'shaping.yaml',
  `reward_shaping:
  enable: True
  intermediate_rewards: { tool_call_success: 0.1, valid_reasoning: 0.05 }
  penalties: { invalid_tool_call: -0.1, max_turns_exceeded: -0.5, redundant_tool_call: -0.05 }
`,
);
const mapFunction = file(
  'agent-name.mjs',
  "export default (row) => ({ ...row, agent_name: 'tool_agent' });\n",
);
const dry = (...words: string[]) => ['train', ...words, '--dry-run'];
const short = (model: string, rows: string) => [
  `actor_rollout_ref.model.path=${model}`,
  `data.train_files=${rows}`,
  ...['data.max_prompt_length=8192', 'limits.tokensPerTrajectory=512', 'limits.tokensPerReply=12'],
  'trainer.options={threads: 1}',
];
const [model, seeing] = [await tinyModel(1, 'tiny', LONG), await tinySeeingModel()];
const loop = file('my_agent_loop.ts', AGENT_LOOP);
const shaper = file('my_reward_shaper.ts', REWARD);
writeFileSync(
  inFolder('geometry.png'),
  encodePng({ width: 60, height: 48, rgb: new Uint8Array(3 * 60 * 48) }),
);
const plainRows = file('plain.jsonl', JSON.stringify(ROWS.plain));
const taken = createServer();
await new Promise<void>((listening) => taken.listen(0, '127.0.0.1', listening));
const { port } = taken.address() as { port: number };

/** In order: what the page names it, the words after `rollcall`, and what must be printed. */
const LINES: readonly (readonly [name: string, words: readonly string[], shows: RegExp])[] = [
  ['Is the machine ready?', ['doctor'], /node/i],
  [
    'gsm8k_multiturn_w_tool.py',
    ['data', 'gsm8k', '--style', 'tool', ...gsm8k, '--local_save_dir', inFolder('tool')],
    /6/,
  ],
  [
    'gsm8k_multiturn_w_interaction.py',
    ['data', 'gsm8k', '--style', 'interaction', ...gsm8k, '--local_save_dir', inFolder('interaction')],
    /6/,
  ],
  [
    'gsm8k_tool_agent_loop.py',
    ['data', 'gsm8k', '--style', 'agent-loop', ...gsm8k, '--local_save_dir', inFolder('loop')],
    /6/,
  ],
  [
    'pd.read_parquet(…).iloc[0]',
    ['data', 'show', inFolder('tool/train.parquet'), '--rows', '1'],
    /What is 1 plus 1/,
  ],
  [
    '"agent_name": "tool_agent" in make_map_fn',
    ['data', 'map', mapFunction, inFolder('tool/train.parquet'), inFolder('named.parquet')],
    /6|named/,
  ],
  [
    'python3 examples/data_preprocess/geo3k.py',
    ['data', 'geo3k', '--local_dataset_path', join(data, 'geo3k'), '--local_save_dir', inFolder('geo3k')],
    /hiyouga\/geometry3k/,
  ],
  ['… and the row has it', ['data', 'show', inFolder('named.parquet'), '--rows', '1'], /tool_agent/],
  [
    'bash run_….sh trainer.experiment_name=…',
    dry(script, 'trainer.experiment_name=first'),
    /"experiment": "first"/,
  ],
  ['python3 -m verl.trainer.main_ppo …', dry(...FULL), /"attemptsPerTask": 4/],
  [
    'rollout.name sglang_async, multi_turn.enable',
    dry('actor_rollout_ref.rollout.name=sglang_async', 'actor_rollout_ref.rollout.multi_turn.enable=True'),
    /"engine": "sglang"/,
  ],
  [
    'tool_config_path, format chatml',
    dry(
      'actor_rollout_ref.rollout.multi_turn.tool_config_path=recipes/gsm8k-multiturn/tools.yaml',
      'actor_rollout_ref.rollout.multi_turn.format=chatml',
    ),
    /tools\.yaml/,
  ],
  ['gsm8k_tool_config.yaml', ['tools', 'list', 'recipes/gsm8k-multiturn/tools.yaml'], /calc_gsm8k_reward/],
  ['trainer.logger wandb without a key', dry('trainer.logger=[console,wandb]'), /missing: .*WANDB_API_KEY/],
  [
    'data.return_raw_chat, rollout.mode=async',
    dry('data.return_raw_chat=True', 'actor_rollout_ref.rollout.mode=async'),
    /\{/,
  ],
  [
    'trace.backend=weave, token2text',
    dry('actor_rollout_ref.rollout.trace.backend=weave', 'actor_rollout_ref.rollout.trace.token2text=True'),
    /"backend": "weave",\s+"text": true/,
  ],
  ['the rollout block', dry(rollout), /"tensorParallel": 2/],
  ['the reward_shaping block', dry(shaping), /0\.05/],
  [
    'port_start=30100, log_level=DEBUG',
    dry(rollout, 'actor_rollout_ref.rollout.port_start=30100', 'actor_rollout_ref.rollout.log_level=DEBUG'),
    /"portStart": 30100/,
  ],
  [
    'max_turns=5, timeout_per_turn=30',
    dry(rollout, 'actor_rollout_ref.rollout.max_turns=5', 'actor_rollout_ref.rollout.timeout_per_turn=30'),
    /"secondsPerReply": 30/,
  ],
  [
    'rollout_name may be vllm',
    dry('actor_rollout_ref.rollout.name=vllm', 'data.need_tools_kwargs=True'),
    /"needToolsKwargs": true[\s\S]*"engine": "vllm"/,
  ],
  [
    'a prompt with replies and tool messages',
    ['preview', ...short(model, file('turns.jsonl', JSON.stringify(ROWS.turns))), '--attempts', '1'],
    /Let me calculate[\s\S]*tool\n48/,
  ],
  [
    'a Geo3K row: parts of type image and text, and its own tools',
    [
      'preview',
      ...short(seeing, file('geometry.jsonl', JSON.stringify(ROWS.geometry(inFolder('geometry.png'))))),
      ...['tools.names=[geometry_calculator,angle_solver,calculator]', '--attempts', '1'],
    ],
    /geometry_calculator[\s\S]*angle_solver(?![\s\S]*A calculator)[\s\S]*image_pad\|>Find the angle/,
  ],
  [
    'the tools block',
    ['preview', file('tools.yaml', TOOLS), ...short(model, plainRows), '--attempts', '1'],
    /A calculator that can evaluate mathematical expressions/,
  ],
  [
    'agent_loop_class and agent_loop_config',
    dry(
      `actor_rollout_ref.rollout.agent_loop_class=${loop}#MyAgentLoop`,
      ...['max_turns=10', 'tools=["calculator"]', 'stop_on_correct=True'].map(
        (word) => `actor_rollout_ref.rollout.agent_loop_config.${word}`,
      ),
    ),
    /"stopOnCorrect": true/,
  ],
  [
    'agent_loop_class: …GSM8KToolAgentLoop',
    [
      ...['preview', ...short(model, plainRows), '--attempts', '1', 'tools.names=[calculator]'],
      'actor_rollout_ref.rollout.agent_loop_class=examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop',
    ],
    /"name": "calculator"/,
  ],
  [
    'agent_loop_class: path.to.MyAgentLoop',
    dry('actor_rollout_ref.rollout.agent_loop_class=path.to.MyAgentLoop'),
    /missing: agent\.module: path\.to\.MyAgentLoop is Python; write agents\.ts/,
  ],
  [
    'class MyAgentLoop with generate(llm_server, data); compute_reward(data)',
    [
      ...[
        'train',
        ...short(model, plainRows),
        `actor_rollout_ref.rollout.agent_loop_class=${loop}#MyAgentLoop`,
      ],
      ...['actor_rollout_ref.rollout.agent_loop_config.max_turns=3', `custom_reward_function.path=${shaper}`],
      ...['custom_reward_function.name=compute_reward', `trainer.default_local_dir=${inFolder('own-loop')}`],
      ...['trainer.total_training_steps=1', 'data.train_batch_size=1', 'actor_rollout_ref.rollout.n=2'],
    ],
    /step 1\/1 {2}reward 0\.1/,
  ],
  [
    'port 30000 is taken',
    dry('actor_rollout_ref.rollout.name=sglang', `actor_rollout_ref.rollout.port_start=${port}`),
    new RegExp(`missing: servers: port ${port} is taken by process ${process.pid}`),
  ],
  [
    '_is_complete: final answer, repetition, failed calls',
    dry(
      ...['stop_on_final_answer=true', 'stop_on_repetition=true', 'max_tool_failures=3'].map(
        (word) => `actor_rollout_ref.rollout.agent_loop_config.${word}`,
      ),
    ),
    /Final Answer[\s\S]*"stopOnToolFailures": 3/,
  ],
  ['stop_strings', dry("actor_rollout_ref.rollout.stop_strings=['<|im_end|>', '##DONE##']"), /##DONE##/],
  ['reward_shaping.tool_format_reward=0.05', dry('reward_shaping.tool_format_reward=0.05'), /0\.05/],
  ...[
    'gsm8k-multiturn',
    'gsm8k-multiturn-4gpu',
    'gsm8k-server',
    'gsm8k-vllm-fsdp',
    'gsm8k-curriculum',
    'gsm8k-mlflow',
    'qwen3-4b-agent-loop',
    'dapo-multiturn',
    'search-r1',
    'shaping',
    'stream-mode',
    'langgraph',
    'geo3k',
    'agent-loop-get-started',
    'grpo',
    'ppo',
  ].map((recipe): [string, string[], RegExp] => [
    `recipes/${recipe}`,
    dry(`recipes/${recipe}/run.yaml`),
    /"tasksPerStep"/,
  ]),
];

/** What a command prints, in this process. */
async function rollcall(words: readonly string[]): Promise<{ printed: string; failed: boolean }> {
  const lines: string[] = [];
  const { log, error } = console;
  const { stdout, stderr } = process;
  const writes = [stdout.write, stderr.write] as const;
  const keep = (text: string | Uint8Array) => Boolean(lines.push(String(text)));
  console.log = console.error = (...given: unknown[]) => void lines.push(`${given.join(' ')}\n`);
  stdout.write = keep;
  stderr.write = keep;
  try {
    await main(words);
  } finally {
    Object.assign(console, { log, error });
    [stdout.write, stderr.write] = writes;
  }
  const failed = Boolean(process.exitCode);
  process.exitCode = 0;
  return { printed: lines.join(''), failed };
}

const aims: Aim[] = [];
for (const [name, words, shows] of LINES) {
  const { printed, failed } = await rollcall(words);
  const passed = !failed && shows.test(printed);
  aims.push(holds(name, passed));
  if (!passed) console.error(`FAILED  ${name}: rollcall ${words.join(' ')}\n${printed.slice(0, 1500)}`);
}
taken.close();
conclude(aims, { lines: LINES.length });

import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { command } from './command.ts';
import { tinyModel } from './tiny-model.ts';

/** A verl user's way in: prepared parquet, a tool YAML, dotted overrides. On a tiny model, two steps. */
let folder: string;
let model: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rollcall-verl-'));
  model = await tinyModel();
  const original = join(folder, 'gsm8k');
  mkdirSync(original);
  const rows = [1, 2, 3, 4].map((n) => ({
    question: `What is ${n} plus ${n}?`,
    answer: `It is ${2 * n}.\n#### ${2 * n}`,
  }));
  for (const split of ['train', 'test']) {
    writeFileSync(join(original, `${split}.jsonl`), rows.map((row) => JSON.stringify(row)).join('\n'));
  }
  const prepared = await command(
    'data',
    'gsm8k',
    '--local_dataset_path',
    original,
    '--style',
    'agent-loop',
    '--local_save_dir',
    join(folder, 'data'),
  );
  expect(prepared).toMatchObject({ status: 0 });
  writeFileSync(
    join(folder, 'tools.yaml'),
    `tools:
  - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"
    config: {}
    tool_schema:
      type: "function"
      function:
        name: "calc_gsm8k_reward"
        description: "A tool for calculating the reward of gsm8k. (1.0 if parsed answer is correct, 0.0 if parsed answer is incorrect or not correctly parsed)"
        parameters:
          type: "object"
          properties:
            answer:
              type: "string"
              description: "The model's answer to the GSM8K math problem, must be a digits"
          required: ["answer"]
`,
  );
}, 120_000);

const overrides = (run: string) => [
  'algorithm.adv_estimator=grpo',
  `data.train_files=${join(folder, 'data/train.parquet')}`,
  `data.val_files=${join(folder, 'data/test.parquet')}`,
  'data.train_batch_size=2',
  'data.max_prompt_length=2048',
  'data.max_response_length=48',
  'data.filter_overlong_prompts=True',
  `actor_rollout_ref.model.path=${model}`,
  'actor_rollout_ref.rollout.n=2',
  'actor_rollout_ref.rollout.mode=async',
  'actor_rollout_ref.rollout.multi_turn.enable=true',
  `actor_rollout_ref.rollout.multi_turn.tool_config_path=${join(folder, 'tools.yaml')}`,
  'actor_rollout_ref.actor.use_kl_loss=True',
  'actor_rollout_ref.actor.kl_loss_coef=0.001',
  'trainer.logger=[console]',
  'trainer.total_epochs=1',
  `trainer.default_local_dir=${run}`,
];

test("a verl command line trains: parquet, tool YAML, agent_name, verl's keys", async () => {
  const run = join(folder, 'run');
  const { status, stderr } = await command('train', ...overrides(run), 'servers.engine=embedded');
  expect(stderr).toContain('step 2/2');
  expect(status).toBe(0);
  const lines = readFileSync(join(run, 'metrics.jsonl'), 'utf8').trim().split('\n');
  const last = JSON.parse(lines.at(-1)!) as { step: number; metrics: Record<string, number> };
  expect(last.step).toBe(2);
  expect(last.metrics).toHaveProperty('actor/kl_loss');
  expect(last.metrics).toHaveProperty('val-core/openai/gsm8k/reward/mean@1');
  const [first] = readFileSync(join(run, 'trajectories/step_1.jsonl'), 'utf8').split('\n');
  const { extra, messages } = JSON.parse(first!) as {
    extra: { agent: string };
    messages: { content: string }[];
  };
  expect(extra.agent).toBe('tool_agent');
  expect(messages.some(({ content }) => /What is \d plus \d/.test(content))).toBe(true);
}, 120_000);

test('a dry run prints the resolved options and starts nothing', async () => {
  const { status, stdout } = await command('train', ...overrides(join(folder, 'never')), '--dry-run');
  expect(status).toBe(0);
  const options = JSON.parse(stdout) as Record<string, unknown>;
  expect(options).toMatchObject({
    tasksPerStep: 2,
    attemptsPerTask: 2,
    epochs: 1,
    algorithm: { name: 'grpo', kl: { as: 'loss' } },
  });
});

test('what this build cannot do is refused by key', async () => {
  const { status, stderr } = await command(
    'train',
    ...overrides(join(folder, 'never')),
    'trainer.logger=[console,swanlab]',
  );
  expect(status).toBe(1);
  expect(stderr).toMatch(/logger/);
});

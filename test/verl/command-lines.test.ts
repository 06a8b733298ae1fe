import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveRun } from 'rollcall/options';
import { describe, expect, test } from 'vitest';

/** Command lines and YAML blocks as users of verl write them, letter by letter (a `#` comment of a shell line left out). */

const folder = mkdtempSync(join(tmpdir(), 'rollcall-verl-'));
const fromYaml = (yaml: string, overrides: readonly string[] = []) => {
  const file = join(folder, `${Math.random()}.yaml`);
  writeFileSync(file, yaml);
  return resolveRun({ file, overrides, environment: {} });
};
const fromLine = (line: string, environment = {}) =>
  resolveRun({ overrides: words(line), environment, exists: () => false });

/** What is written is understood; at most a part of this build is not there yet. */
function expectUnderstood(refused: readonly string[]): void {
  expect(refused.filter((line) => !line.includes(': not yet: '))).toEqual([]);
}

/** Splits as a shell does, with quotes taken off; what `$HOME` and `$(now)` become is the shell's affair. */
function words(line: string): string[] {
  return [...line.replaceAll('\\\n', ' ').matchAll(/(?:"[^"]*"|'[^']*'|[^\s'"])+/g)].map(([word]) =>
    word.replace(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''),
  );
}

describe('multi-turn GSM8K with a tool', () => {
  test('the run command names the experiment', async () => {
    const { options, refused } = await fromLine(
      'trainer.experiment_name=qwen2.5-3b_rm-gsm8k-sgl-multiturn-2025-05-03-10-00',
    );
    expect(options.experiment).toBe('qwen2.5-3b_rm-gsm8k-sgl-multiturn-2025-05-03-10-00');
    expectUnderstood(refused);
  });

  test('the basic configuration is SGLang and the tool loop', async () => {
    const { options, refused } = await fromYaml(`
actor_rollout_ref:
  rollout:
    name: "sglang_async"
    multi_turn:
      enable: True
`);
    expect(options.servers.engine).toBe('sglang');
    expect(options.agent.default).toBe('tool_agent');
    expectUnderstood(refused);
  });

  test('the tool configuration is a file, missing where it is not there, and chatml is the model’s own format', async () => {
    const { options, missing } = await fromYaml(`
actor_rollout_ref:
  rollout:
    multi_turn:
      tool_config_path: <path_to_tool_yaml_file>
      format: chatml
`);
    expect(options.tools.file).toBe('<path_to_tool_yaml_file>');
    expect(options.chat.format).toBe('auto');
    expect(missing).toContainEqual(
      expect.stringContaining('tools.file: there is no file <path_to_tool_yaml_file>'),
    );
  });

  test('adv_estimator = grpo, and need_tools_kwargs', async () => {
    const { options } = await fromLine('algorithm.adv_estimator=grpo data.need_tools_kwargs=True');
    expect(options.algorithm.name).toBe('grpo');
    expect(options.tasks.needToolsKwargs).toBe(true);
  });
});

describe('multi-turn Geo3K', () => {
  test('the run command names the experiment', async () => {
    const { options } = await fromLine(
      'trainer.experiment_name=qwen2.5-3b-it_rm-geo3k-sgl-multiturn-2025-06-20-10-00',
    );
    expect(options.experiment).toBe('qwen2.5-3b-it_rm-geo3k-sgl-multiturn-2025-06-20-10-00');
  });
});

describe('the agent loop', () => {
  test('the two options of the agent loop are how Rollcall always works', async () => {
    const { options, notes, refused } = await fromLine(
      'data.return_raw_chat=True actor_rollout_ref.rollout.mode=async',
    );
    expect(notes).toHaveLength(2);
    expectUnderstood(refused);
    expect(options.servers.engine).toBe('embedded');
  });

  test('rollout_name may be vllm', async () => {
    expect((await fromLine('actor_rollout_ref.rollout.name=vllm')).options.servers.engine).toBe('vllm');
  });
});

describe('an agent loop with traces', () => {
  test('the lines added to the script', async () => {
    const { options, refused, missing } = await fromLine(`
    trainer.total_epochs=15 \\
    actor_rollout_ref.rollout.trace.backend=weave \\
    actor_rollout_ref.rollout.trace.token2text=True \\
    actor_rollout_ref.rollout.mode=async \\
    actor_rollout_ref.rollout.multi_turn.enable=true`);
    expect(options.epochs).toBe(15);
    expect(options.trace).toEqual({ backend: 'weave', text: true, samplesPerStep: null });
    expect(options.agent.default).toBe('tool_agent');
    expectUnderstood(refused);
    expect(missing).toContain('trace.backend: weave: the environment variable WANDB_API_KEY is not set');
  });

  test('with WANDB_API_KEY set, nothing is missing for weave', async () => {
    const line = 'actor_rollout_ref.rollout.trace.backend=weave';
    expect((await fromLine(line, { WANDB_API_KEY: 'x' })).missing.join()).not.toContain('weave');
  });
});

describe('SGLang, shaping and a curriculum', () => {
  test('the SGLang rollout block', async () => {
    const { options, refused } = await fromYaml(`
actor_rollout_ref:
  rollout:
    name: sglang                    # 使用 SGLang

    mode: standalone                # standalone 或 server
    port_start: 30000

    tensor_model_parallel_size: 2
    data_parallel_size: 1

    gpu_memory_utilization: 0.6

    use_agent_loop: True
    max_turns: 10
    stop_on_tool_success: True
`);
    expect(options.servers).toMatchObject({
      engine: 'sglang',
      mode: 'standalone',
      portStart: 30000,
      tensorParallel: 2,
      replicas: 1,
      memoryShare: 0.6,
    });
    expect(options.agent).toMatchObject({ default: 'tool_agent', stopOnToolSuccess: true });
    expect(options.limits.turns).toBe(10);
    expectUnderstood(refused);
  });

  test('mode: server uses servers that run already', async () => {
    const { options, missing } = await fromLine('actor_rollout_ref.rollout.mode=server');
    expect(options.servers.mode).toBe('server');
    expect(missing).toContain('servers.urls: mode server needs the addresses of running servers');
  });

  test('the agent loop block', async () => {
    const { options, refused } = await fromYaml(`
actor_rollout_ref:
  rollout:
    agent_loop_class: "examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop"

    agent_loop_config:
      max_turns: 10
      tools: ["calculator"]
      stop_on_correct: True
`);
    expect(options.agent.module).toBe(
      'examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop',
    );
    expect(options.limits.turns).toBe(10);
    expect(options.tools.names).toEqual(['calculator']);
    expect(options.agent.stopOnCorrect).toBe(true);
    expectUnderstood(refused);
  });

  test('the tools block is a list of tools', async () => {
    const { options } = await fromYaml(`
tools:
  - name: calculator
    description: "A calculator that can evaluate mathematical expressions"
    parameters:
      type: object
      properties:
        expression:
          type: string
          description: "The mathematical expression to evaluate"
`);
    expect(options.tools.list).toEqual([
      {
        name: 'calculator',
        description: 'A calculator that can evaluate mathematical expressions',
        parameters: {
          type: 'object',
          properties: {
            expression: { type: 'string', description: 'The mathematical expression to evaluate' },
          },
        },
      },
    ]);
  });

  test('the reward shaping block', async () => {
    const { options } = await fromYaml(`
reward_shaping:
  enable: True

  intermediate_rewards:
    tool_call_success: 0.1
    valid_reasoning: 0.05

  penalties:
    invalid_tool_call: -0.1
    max_turns_exceeded: -0.5
    redundant_tool_call: -0.05
`);
    expect(options.rewards.shaping).toEqual({
      enabled: true,
      per: 'trajectory',
      toolCallSuccess: 0.1,
      validReasoning: 0.05,
      invalidToolCall: -0.1,
      maxTurnsExceeded: -0.5,
      redundantToolCall: -0.05,
      toolFormat: 0,
    });
  });

  test('enable: False turns shaping off', async () => {
    const { options } = await fromYaml('reward_shaping:\n  enable: False\n');
    expect(options.rewards.shaping.enabled).toBe(false);
  });

  test('the whole training command', async () => {
    const { options, notes, refused, missing } = await fromLine(`
    algorithm.adv_estimator=grpo \\
    data.train_files=$HOME/data/gsm8k_tool/train.parquet \\
    data.val_files=$HOME/data/gsm8k_tool/test.parquet \\
    data.train_batch_size=256 \\
    \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct \\
    \\
    actor_rollout_ref.rollout.name=sglang \\
    actor_rollout_ref.rollout.use_agent_loop=True \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    actor_rollout_ref.rollout.n=4 \\
    \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.kl_loss_coef=0.001 \\
    \\
    trainer.n_gpus_per_node=8 \\
    trainer.total_epochs=20`);
    expectUnderstood(refused);
    expect(options).toMatchObject({
      model: 'Qwen/Qwen2.5-3B-Instruct',
      tasksPerStep: 256,
      attemptsPerTask: 4,
      epochs: 20,
      tasks: { files: ['$HOME/data/gsm8k_tool/train.parquet'] },
      validation: { files: ['$HOME/data/gsm8k_tool/test.parquet'] },
      algorithm: { name: 'grpo', kl: { as: 'loss', coefficient: 0.001 } },
      optimizer: { miniBatches: 1 },
      agent: { default: 'tool_agent' },
      servers: { engine: 'sglang', tensorParallel: 2, memoryShare: 0.6 },
    });
    expect(notes).toEqual([
      expect.stringContaining('trainer.n_gpus_per_node=8: no effect: it needs a trainer on GPUs'),
    ]);
    expect(missing).toContain('tasks.files: there is no file $HOME/data/gsm8k_tool/train.parquet');
  });

  test('the answers to the frequent questions', async () => {
    const port = await fromLine('actor_rollout_ref.rollout.port_start=30100');
    expect(port.options.servers.portStart).toBe(30100);
    const log = await fromLine('actor_rollout_ref.rollout.log_level=DEBUG');
    expect(log.options.servers.logLevel).toBe('debug');
    const turns = await fromLine('actor_rollout_ref.rollout.max_turns=5');
    expect(turns.options.limits.turns).toBe(5);
    const time = await fromLine('actor_rollout_ref.rollout.timeout_per_turn=30');
    expect(time.options.limits.secondsPerReply).toBe(30);
    expect(time.options.limits.toolTimeoutMs).toBe(30_000);
    // A shell takes the quotes off and makes two words of it.
    const stops = await fromLine(`actor_rollout_ref.rollout.stop_strings=['<|im_end|>', '##DONE##']`);
    expect(stops.options.sampling.stopStrings).toEqual(['<|im_end|>', '##DONE##']);
    const format = await fromLine('reward_shaping.tool_format_reward=0.05');
    expect(format.options.rewards.shaping).toMatchObject({ toolFormat: 0.05, enabled: true });
    const model = await fromLine('actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct');
    expect(model.options.model).toBe('Qwen/Qwen2.5-7B-Instruct');
    const custom = await fromLine('actor_rollout_ref.rollout.agent_loop_class=path.to.MyAgentLoop');
    expect(custom.options.agent.module).toBe('path.to.MyAgentLoop');
  });

  test('the performance tables: batch_size=256, n=4, epochs=20', async () => {
    const { options } = await fromLine(
      'data.train_batch_size=256 actor_rollout_ref.rollout.n=4 trainer.total_epochs=20',
    );
    expect([options.tasksPerStep, options.attemptsPerTask, options.epochs]).toEqual([256, 4, 20]);
  });
});

describe("verl's script run_qwen2.5-3b_gsm8k_multiturn.sh", () => {
  test('resolves as a whole', async () => {
    const { options, refused, notes } = await fromLine(
      `
    algorithm.adv_estimator=grpo \\
    data.train_batch_size=256 \\
    data.max_prompt_length=1024 \\
    data.max_response_length=1024 \\
    data.filter_overlong_prompts=True \\
    data.truncation='error' \\
    data.return_raw_chat=True \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.kl_loss_coef=0.001 \\
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \\
    actor_rollout_ref.actor.entropy_coeff=0 \\
    actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.fsdp_config.param_offload=False \\
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=False \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.name=sglang \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \\
    actor_rollout_ref.rollout.n=16 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32 \\
    actor_rollout_ref.ref.fsdp_config.param_offload=True \\
    algorithm.use_kl_in_reward=False \\
    trainer.critic_warmup=0 \\
    trainer.logger='["console","wandb"]' \\
    trainer.project_name='gsm8k_async_rl' \\
    trainer.experiment_name='qwen2.5-3b_function_rm-gsm8k-async-sgl-multi-w-tool-verify-n16' \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 \\
    trainer.save_freq=-1 \\
    trainer.test_freq=20 \\
    trainer.total_epochs=15`,
      { WANDB_API_KEY: 'x' },
    );
    expectUnderstood(refused);
    expect(notes.length).toBeGreaterThan(8);
    expect(options).toMatchObject({
      tasksPerStep: 256,
      attemptsPerTask: 16,
      epochs: 15,
      project: 'gsm8k_async_rl',
      loggers: ['console', 'wandb'],
      tasks: { maxPromptTokens: 1024, tooLong: 'filter' },
      limits: { tokensPerTrajectory: 1024, tokensPerReply: 1024 },
      optimizer: { learningRate: 1e-6, miniBatches: 1 },
      algorithm: { kl: { as: 'loss', estimator: 'k3', coefficient: 0.001 }, entropyBonus: 0 },
      evaluation: { every: 20 },
      checkpoints: { every: 0 },
    });
  });
});

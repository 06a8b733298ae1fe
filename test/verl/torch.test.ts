/** What verl's words about GPUs become: `trainer.name=torch` and its options. */
import { resolveRun } from 'rollcall/options';
import { describe, expect, test } from 'vitest';
import { assembleTrainer } from '../../src/options/trainers.ts';

const ACTOR = 'actor_rollout_ref.actor';
const MODEL = 'actor_rollout_ref.model';
const resolve = (...overrides: readonly string[]) =>
  resolveRun({ overrides, environment: {}, exists: () => true });
const trainerOf = async (...overrides: readonly string[]) => {
  const { options, refused } = await resolve(...overrides);
  expect(refused).toEqual([]);
  assembleTrainer(options.trainer); // the trainer takes what the keys set
  return options.trainer;
};
const torchOptions = async (...overrides: readonly string[]) =>
  (await trainerOf(`${ACTOR}.strategy=fsdp`, ...overrides)).options;

describe('the trainer', () => {
  test('is PyTorch with fsdp and fsdp2, and embedded without a strategy', async () => {
    expect(await trainerOf(`${ACTOR}.strategy=fsdp`)).toEqual({ name: 'torch', options: {} });
    expect(await trainerOf(`${ACTOR}.strategy=fsdp2`)).toEqual({ name: 'torch', options: {} });
    expect(await trainerOf('trainer.n_gpus_per_node=8')).toEqual({ name: 'embedded', options: {} });
  });

  test('is never Megatron, and the refusal says what it would need', async () => {
    for (const part of [ACTOR, 'critic', 'actor_rollout_ref.ref']) {
      const { refused } = await resolve(`${part}.strategy=megatron`);
      expect(refused).toEqual([expect.stringMatching(/not yet: .*tensor, pipeline and expert parallelism/)]);
    }
  });
});

describe('on PyTorch', () => {
  test.each([
    ['trainer.n_gpus_per_node=8', { ranks: 8 }],
    ['trainer.device=cpu', { device: 'cpu' }],
    [`${MODEL}.enable_gradient_checkpointing=False`, { recompute: 0 }],
    [`${MODEL}.enable_gradient_checkpointing=True`, { recompute: 1 }],
    [`${ACTOR}.use_torch_compile=True`, { compile: true }],
    [`${MODEL}.use_fused_kernels=True`, { fused: true }],
    [`${MODEL}.use_liger=True`, { fused: true }],
    [`${ACTOR}.fsdp_config.param_offload=True`, { offload: true }],
    [`${ACTOR}.fsdp_config.optimizer_offload=True`, { offload: true }],
    [`${ACTOR}.fsdp_config.offload_policy=True`, { offload: true }],
    [`${ACTOR}.fsdp_config.param_offload=False`, {}],
    [`${ACTOR}.fsdp_config.mixed_precision.param_dtype=fp32`, { precision: 'float32' }],
    [`${ACTOR}.fsdp_config.dtype=bfloat16`, { precision: 'bfloat16' }],
    [`${MODEL}.lora_rank=32`, { lora: { rank: 32, alpha: 16 } }],
  ])('%s', async (override, expected) => {
    expect(await torchOptions(override)).toEqual(expected);
  });

  test('one offload turned on is not turned off by the other', async () => {
    const on = `${ACTOR}.fsdp_config.param_offload=True`;
    const off = `${ACTOR}.fsdp_config.optimizer_offload=False`;
    expect(await torchOptions(on, off)).toEqual({ offload: true });
    expect(await torchOptions(off, on)).toEqual({ offload: true });
  });

  test('adapters keep all that is said of them', async () => {
    expect(
      await torchOptions(
        `${MODEL}.target_modules=[q_proj,v_proj]`,
        `${MODEL}.lora_alpha=64`,
        `${MODEL}.lora_rank=32`,
      ),
    ).toEqual({ lora: { rank: 32, alpha: 64, targets: ['q_proj', 'v_proj'] } });
  });

  test('ppo_max_token_len_per_gpu is what a rank takes, and the loop sends all that the ranks take', async () => {
    const given = [`${ACTOR}.ppo_max_token_len_per_gpu=24000`, `${ACTOR}.use_dynamic_bsz=True`];
    const { options } = await resolve(`${ACTOR}.strategy=fsdp`, ...given);
    expect(options.trainer.options).toEqual({ tokensPerRank: 24_000 });
    expect(options.optimizer.tokensPerMicroBatch).toBe(1_000_000);
    expect((await resolve(...given)).options.optimizer.tokensPerMicroBatch).toBe(24_000);
  });

  test('ppo_micro_batch_size_per_gpu is that many of the longest sequences, unless tokens are given', async () => {
    const given = [
      `${ACTOR}.ppo_micro_batch_size_per_gpu=8`,
      'data.max_prompt_length=1024',
      'data.max_response_length=512',
    ];
    expect(await torchOptions(...given)).toEqual({ tokensPerRank: 8 * 1536 });
    expect(await torchOptions(...given, `${ACTOR}.ppo_max_token_len_per_gpu=4096`)).toEqual({
      tokensPerRank: 4096,
    });
  });

  test('several nodes need a place to meet', async () => {
    const nodes = [`${ACTOR}.strategy=fsdp`, 'trainer.nnodes=2'];
    const about = async (...words: string[]) =>
      (await resolve(...nodes, ...words)).missing.filter((line) => line.startsWith('cluster.nodes'));
    expect(await about()).toEqual([expect.stringContaining('--rdzv-endpoint=HOST:PORT')]);
    expect(await about('trainer.options.torchrun=[--nnodes=2,--rdzv-endpoint=a:1]')).toEqual([]);
    expect(await about('trainer.options.url=tcp://gpu-1:29600')).toEqual([]);
  });

  test('sequence parallelism is refused, a degree of 1 is not', async () => {
    const { refused } = await resolve(`${ACTOR}.ulysses_sequence_parallel_size=2`);
    expect(refused).toEqual([expect.stringContaining('a row must fit on one GPU')]);
    expect((await resolve(`${ACTOR}.ulysses_sequence_parallel_size=1`)).refused).toEqual([]);
  });

  test('what cannot act says why', async () => {
    const noteOf = async (override: string) =>
      (await resolve(`${ACTOR}.strategy=fsdp`, override)).notes.join();
    expect(await noteOf(`${ACTOR}.fsdp_config.fsdp_size=4`)).toContain('would need hybrid sharding');
    expect(await noteOf('actor_rollout_ref.ref.fsdp_config.param_offload=True')).toContain(
      "with the policy's trainer.options",
    );
    expect(await noteOf('critic.ppo_max_token_len_per_gpu=4096')).toContain("policy's workers");
    expect(await noteOf(`${MODEL}.use_remove_padding=False`)).toContain('there is no padding');
  });
});

describe('trainer.options', () => {
  test('take one entry at a time, beside those of verl', async () => {
    expect(await torchOptions('trainer.options.recompute=0.5', 'trainer.n_gpus_per_node=2')).toEqual({
      recompute: 0.5,
      ranks: 2,
    });
  });

  test('given twice in two vocabularies are an error, as an entry or as a whole', async () => {
    const ranks = 'trainer.n_gpus_per_node=2';
    for (const ours of ['trainer.options.ranks=4', 'trainer.options={ranks: 4}']) {
      await expect(resolve('trainer.name=torch', ours, ranks)).rejects.toThrow(
        'in two vocabularies; give one',
      );
    }
    expect(
      (await resolve('trainer.name=torch', 'trainer.options={recompute: 1}', ranks)).options.trainer,
    ).toEqual({
      name: 'torch',
      options: { recompute: 1, ranks: 2 },
    });
  });

  test('that the trainer does not have are refused by it', async () => {
    const { options } = await resolve('trainer.name=torch', 'trainer.options.rank=4');
    expect(() => assembleTrainer(options.trainer)).toThrow(/^trainer\.options: .*"rank"/);
  });
});

import type { z } from 'zod';
import { flag, number, text } from '../../lib/setting.ts';
import {
  means,
  noEffect,
  notYet,
  type Reading,
  type ReadingContext,
  same,
  shown,
  type VerlRow,
} from '../row.ts';
import { asList, NEEDS_GPU_TRAINER, NO_LIMIT, oneOrMore } from './words.ts';

/** Keys about how a model is trained on GPUs. They act where `trainer.name` is torch; `actor.strategy` chooses it. */

const ACTOR = 'actor_rollout_ref.actor';
const MODEL = 'actor_rollout_ref.model';
const LORA = 'trainer.options.lora';

const isTorch = ({ option }: ReadingContext) => option('trainer.name') === 'torch';

/** Elsewhere than in the PyTorch trainer it changes nothing, and one line says so. */
function onTorch(row: VerlRow): VerlRow {
  return {
    ...row,
    late: true,
    beside: { 'trainer.name': 'torch', ...row.beside },
    read: (value, context) =>
      isTorch(context)
        ? row.read(value, context)
        : { note: `${row.key}=${shown(value)}: no effect: ${NEEDS_GPU_TRAINER}` },
  };
}

/** One option of the PyTorch trainer. */
function torchOption<S extends z.ZodType>(
  key: string,
  name: string,
  takes: S,
  samples: readonly [unknown, unknown],
  read: (value: z.output<S>) => unknown,
  note?: string,
): VerlRow {
  const path = `trainer.options.${name}`;
  return onTorch(
    means(key, path, takes, samples, (value) => ({ [path]: read(value) }), note ? { note } : {}),
  );
}

const MEGATRON =
  'Megatron splits the layers themselves over GPUs (tensor, pipeline and expert parallelism), which is not implemented; fsdp shards the same model over any number of GPUs';

/** `actor.strategy` chooses the trainer for all models; the others can only agree with it. */
function strategy(key: string, name: (context: ReadingContext) => Reading): VerlRow {
  return means(
    key,
    'trainer.name',
    text,
    ['fsdp', 'megatron'],
    (value, context) => {
      if (value === 'megatron') return { refuse: `${key}=megatron: not yet: ${MEGATRON}` };
      if (value === 'fsdp' || value === 'fsdp2') return name(context);
      return { refuse: `${key}=${value} is unknown; use fsdp or fsdp2` };
    },
    {
      values: 'fsdp, fsdp2',
      note: 'the PyTorch trainer, which is FSDP2 under either name; megatron: not yet',
    },
  );
}

function sameStrategy(key: string): VerlRow {
  const row = strategy(key, () => ({
    note: `${key}: the models of a run are trained by one group of workers; ${ACTOR}.strategy chooses it`,
  }));
  return { ...row, kind: 'not yet', to: [], note: `follows ${ACTOR}.strategy; megatron: not yet` };
}

/** Several of verl's keys turn one option on; off leaves it to the others. */
function turnsOn(key: string, name: 'offload' | 'fused', note: string): VerlRow {
  const path = `trainer.options.${name}`;
  return onTorch(
    means(
      key,
      path,
      flag,
      [true, false],
      (on) =>
        on ? { [path]: true } : { note: `${key}=false: nothing to do; it is off unless a key turns it on` },
      { note },
    ),
  );
}

const PRECISIONS: Readonly<Record<string, string>> = {
  bf16: 'bfloat16',
  bfloat16: 'bfloat16',
  fp32: 'float32',
  float32: 'float32',
};

function precision(key: string): VerlRow {
  const path = 'trainer.options.precision';
  return onTorch(
    means(
      key,
      path,
      text,
      ['bf16', 'fp32'],
      (value) =>
        PRECISIONS[value]
          ? { [path]: PRECISIONS[value] }
          : { refuse: `${key}=${value}: not yet: computing in ${value}; use bf16 or fp32` },
      { values: 'bf16, fp32', note: 'of computing; trained weights, gradients and moments are float32' },
    ),
  );
}

/** A number of sequences becomes the tokens that they have at most. */
function sequencesAtOnce(key: string): VerlRow {
  const path = 'trainer.options.tokensPerRank';
  return onTorch(
    means(
      key,
      [path, 'optimizer.tokensPerMicroBatch'],
      number,
      [32, 8],
      (size, { option, isGiven }) => {
        if (isGiven(`${ACTOR}.ppo_max_token_len_per_gpu`))
          return { note: `${key}=${size}: not used: ppo_max_token_len_per_gpu is given` };
        const tokens = Number(option('tasks.maxPromptTokens')) + Number(option('limits.tokensPerTrajectory'));
        return { [path]: size * tokens, 'optimizer.tokensPerMicroBatch': NO_LIMIT };
      },
      {
        note: 'in tokens: sequences × (longest prompt + longest response); ppo_max_token_len_per_gpu goes before it',
      },
    ),
  );
}

const BY_TOKENS = 'micro-batches are made by tokens, packed without padding; the gradient is the same';
const ONE_GROUP = "it is opened by the policy's workers, with the policy's trainer.options";

export const TORCH_KEYS: readonly VerlRow[] = [
  strategy(`${ACTOR}.strategy`, () => ({ set: { 'trainer.name': 'torch' } })),
  ...['critic', 'actor_rollout_ref.ref'].map((part) => sameStrategy(`${part}.strategy`)),
  torchOption('trainer.n_gpus_per_node', 'ranks', number, [8, 4], (count) => count),
  onTorch(
    same('trainer.nnodes', 'cluster.nodes', [1, 2], {
      note: '`rollcall launch` places more than 1; without it trainer.options.torchrun says where the nodes meet',
    }),
  ),
  torchOption('trainer.device', 'device', text, ['cuda', 'cpu'], (device) => device),
  means(
    `${ACTOR}.ppo_max_token_len_per_gpu`,
    ['optimizer.tokensPerMicroBatch', 'trainer.options.tokensPerRank'],
    number,
    [16384, 8192],
    (tokens, context) =>
      isTorch(context)
        ? { 'trainer.options.tokensPerRank': tokens, 'optimizer.tokensPerMicroBatch': NO_LIMIT }
        : { 'optimizer.tokensPerMicroBatch': tokens },
    { late: true, note: 'with trainer.name=torch each rank takes as many at once' },
  ),
  sequencesAtOnce(`${ACTOR}.ppo_micro_batch_size_per_gpu`),
  noEffect(`${ACTOR}.ppo_micro_batch_size`, BY_TOKENS, [32, 8]),
  noEffect(`${ACTOR}.use_dynamic_bsz`, BY_TOKENS, [true, false]),
  noEffect(`${MODEL}.use_remove_padding`, 'sequences are packed; there is no padding', [true, false]),
  torchOption(`${MODEL}.enable_gradient_checkpointing`, 'recompute', flag, [true, false], (on) =>
    on ? 1 : 0,
  ),
  torchOption(`${ACTOR}.use_torch_compile`, 'compile', flag, [true, false], (on) => on),
  ...['param_offload', 'optimizer_offload', 'offload_policy'].map((name) =>
    turnsOn(
      `${ACTOR}.fsdp_config.${name}`,
      'offload',
      'parameters, gradients and optimizer state go to host memory together',
    ),
  ),
  ...['dtype', 'mixed_precision.param_dtype'].map((name) => precision(`${ACTOR}.fsdp_config.${name}`)),
  noEffect(`${ACTOR}.fsdp_config.model_dtype`, 'trained weights, gradients and moments are float32', [
    'fp32',
    'bf16',
  ]),
  noEffect(
    `${ACTOR}.fsdp_config.fsdp_size`,
    'a model is sharded over all ranks; copies of it on groups of ranks would need hybrid sharding',
    [-1, 4],
  ),
  noEffect(
    `${ACTOR}.fsdp_config.*`,
    'FSDP2 shards layer by layer, sums gradients in float32 and frees gathered weights; it changes no result',
    [true, false],
  ),
  ...[ACTOR, 'critic', 'actor_rollout_ref.ref'].map((part) =>
    notYet(
      `${part}.ulysses_sequence_parallel_size`,
      1,
      2,
      'sequence parallelism; a row must fit on one GPU, with recomputed activations and a head in chunks',
    ),
  ),
  noEffect(`${ACTOR}.megatron.*`, 'the trainer is FSDP2, which has no such setting', [1, 2]),
  ...['entropy_from_logits_with_chunking', 'entropy_checkpointing'].map((name) =>
    noEffect(
      `${ACTOR}.${name}`,
      'logits exist for a chunk of targets at a time, and the backward computes them again',
      [true, false],
    ),
  ),
  ...['use_liger', 'use_fused_kernels'].map((name) =>
    turnsOn(`${MODEL}.${name}`, 'fused', 'our own kernels for norms, gates and the head, on a GPU'),
  ),
  noEffect(
    `${MODEL}.enable_activation_offload`,
    'activations are computed again (trainer.options.recompute) instead of moved',
    [true, false],
  ),
  noEffect(`${MODEL}.use_shm`, "weights are read once from the model's folder", [true, false]),
  noEffect('actor_rollout_ref.ref.*', `the reference is not trained; ${ONE_GROUP}`, [true, 32]),
  noEffect('critic.*', ONE_GROUP, [true, 32]),
  means(
    `${MODEL}.lora_rank`,
    [`${LORA}.rank`, `${LORA}.alpha`],
    number,
    [0, 32],
    (rank, { isGiven }) => {
      if (rank === 0) return { note: `${MODEL}.lora_rank=0: all weights are trained` };
      const alpha = isGiven(`${MODEL}.lora_alpha`) ? {} : { [`${LORA}.alpha`]: 16 };
      return { [`${LORA}.rank`]: rank, ...alpha };
    },
    { late: true, note: '0: all weights are trained' },
  ),
  ofLora('lora_alpha', 'alpha', number, [16, 32], (alpha) => alpha),
  ofLora('target_modules', 'targets', oneOrMore, [['q_proj', 'v_proj'], ['q_proj']], asList),
];

/** A key of LoRA means nothing where there is no rank. */
function ofLora<S extends z.ZodType>(
  name: string,
  to: string,
  takes: S,
  samples: readonly [unknown, unknown],
  read: (value: z.output<S>) => unknown,
): VerlRow {
  const key = `${MODEL}.${name}`;
  return means(
    key,
    `${LORA}.${to}`,
    takes,
    samples,
    (value, { option }) => {
      if (!option('trainer.options')['lora'])
        return { note: `${key}=${shown(value)}: no effect: lora_rank is not given` };
      if (value === 'all-linear') return { note: `${key}=all-linear: that is the default` };
      return { [`${LORA}.${to}`]: read(value) };
    },
    { late: true, beside: { [`${MODEL}.lora_rank`]: 8 } },
  );
}

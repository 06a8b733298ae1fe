/** The trainers that are known by name. To add one, write its factory and add a line. */
import { z } from 'zod';
import { embedded } from '../engine/embedded.ts';
import { ConfigError } from '../errors.ts';
import { SERVER_NAMES } from '../tinker/known-servers.ts';
import { tinker } from '../tinker/tinker.ts';
import { ADVANTAGE_LOSSES } from '../tinker/wire.ts';
import { type TorchOptions, torch } from '../torch/torch.ts';
import type { TrainerFactory } from '../training/trainer.ts';

interface NamedTrainer<O> {
  /** What `trainer.options` may hold. */
  readonly options: z.ZodType<O>;
  create(options: O): TrainerFactory;
}

/** So that a trainer's options keep their type within its line. */
function named<O>(trainer: NamedTrainer<O>) {
  return (given: Readonly<Record<string, unknown>>): TrainerFactory => {
    const parsed = trainer.options.safeParse(given);
    if (parsed.success) return trainer.create(parsed.data);
    const [{ path, message } = { path: [], message: '' }] = parsed.error.issues;
    throw new ConfigError(`${['trainer.options', ...path].join('.')}: ${message}`);
  };
}

const lora = z.strictObject({
  rank: z.int().min(1),
  alpha: z.number().positive().exactOptional(),
  targets: z.array(z.string()).exactOptional(),
  seed: z.int().exactOptional(),
});

const TRAINERS: Readonly<Record<string, ReturnType<typeof named>>> = {
  embedded: named({
    options: z.strictObject({
      threads: z.int().min(1).exactOptional(),
      kernels: z.enum(['native', 'wasm']).exactOptional(),
      recompute: z.boolean().exactOptional(),
      weights: z.enum(['float32', 'bfloat16']).exactOptional(),
      lora: lora.exactOptional(),
    }),
    create: (options) => embedded(options).trainer,
  }),
  torch: named({
    options: z.strictObject({
      url: z.string().exactOptional(),
      token: z.string().exactOptional(),
      python: z.string().exactOptional(),
      ranks: z.int().min(1).exactOptional(),
      device: z.enum(['cpu', 'cuda']).exactOptional(),
      threads: z.int().min(1).exactOptional(),
      torchrun: z.array(z.string()).exactOptional(),
      environment: z.record(z.string(), z.string()).exactOptional(),
      lora: lora.exactOptional(),
      baseBits: z.literal(4).exactOptional(),
      precision: z.enum(['float32', 'bfloat16']).exactOptional(),
      recompute: z.number().min(0).max(1).exactOptional(),
      offload: z.boolean().exactOptional(),
      compile: z.boolean().exactOptional(),
      fused: z.boolean().exactOptional(),
      attention: z.enum(['flash', 'varlen', 'rows']).exactOptional(),
      decay: z.enum(['all', 'matrices']).exactOptional(),
      tokensPerRank: z.int().min(1).exactOptional(),
      weightsDirectory: z.string().exactOptional(),
      send: z.enum(['weights', 'adapter']).exactOptional(),
      push: z.array(z.string()).min(1).exactOptional(),
      pushBy: z.enum(['memory', 'group', 'sglang']).exactOptional(),
      restarts: z.int().min(0).exactOptional(),
      startSeconds: z.number().positive().exactOptional(),
      secondsPerCall: z.number().positive().exactOptional(),
      secondsPerExchange: z.number().positive().exactOptional(),
    } satisfies Record<Exclude<keyof TorchOptions, 'clock' | 'log'>, z.ZodType>),
    create: torch,
  }),
  tinker: named({
    options: z.strictObject({
      url: z.string().exactOptional(),
      model: z.string(),
      lora: z
        .strictObject({
          rank: z.int().min(1),
          seed: z.int().exactOptional(),
          unembedding: z.boolean().exactOptional(),
          mlp: z.boolean().exactOptional(),
          attention: z.boolean().exactOptional(),
        })
        .exactOptional(),
      server: z.enum(SERVER_NAMES).exactOptional(),
      reduction: z.enum(['token-sum', 'sequence-mean']).exactOptional(),
      loss: z.enum(ADVANTAGE_LOSSES).exactOptional(),
      contextTokens: z.int().min(1).exactOptional(),
      prices: z
        .strictObject({ prompt: z.number().min(0), sampled: z.number().min(0), trained: z.number().min(0) })
        .exactOptional(),
      patienceSeconds: z.number().positive().exactOptional(),
      secondsPerCall: z.number().positive().exactOptional(),
    }),
    create: tinker,
  }),
};

export const TRAINER_NAMES: readonly string[] = Object.keys(TRAINERS);

/** What trains, by `trainer.name` and `trainer.options`. */
export function assembleTrainer({
  name,
  options,
}: {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}): TrainerFactory {
  const create = TRAINERS[name];
  if (create) return create(options);
  throw new ConfigError(`trainer.name is ${JSON.stringify(name)}; use one of ${TRAINER_NAMES.join(', ')}`);
}

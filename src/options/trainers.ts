/** The trainers that are known by name. To add one, write its factory and add a line. */
import { z } from 'zod';
import { embedded } from '../engine/embedded.ts';
import { ConfigError } from '../errors.ts';
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

const TRAINERS: Readonly<Record<string, ReturnType<typeof named>>> = {
  embedded: named({
    options: z.strictObject({
      threads: z.int().min(1).exactOptional(),
      kernels: z.enum(['native', 'wasm']).exactOptional(),
      recompute: z.boolean().exactOptional(),
      lora: z
        .strictObject({
          rank: z.int().min(1),
          alpha: z.number().positive(),
          targets: z.array(z.string()).exactOptional(),
          seed: z.int().exactOptional(),
        })
        .exactOptional(),
    }),
    create: (options) => embedded(options).trainer,
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

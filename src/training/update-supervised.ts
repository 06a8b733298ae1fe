import { ConfigError, TrainerError } from '../errors.ts';
import type { ImageRef, Metrics } from '../types.ts';
import { packMicroBatches } from './micro-batches.ts';
import type { AdamOptions, Trainer } from './trainer.ts';

/** A sequence to imitate: ids, and which of them are trained. */
export interface Demonstration {
  readonly ids: Int32Array;
  /** 1 on the tokens to be learned. */
  readonly trained: Uint8Array;
  /** Weight of each of its tokens; 1 if not given. */
  readonly weight?: number;
  /** `at` is the position of an image's placeholder in `ids`. */
  readonly images?: readonly { readonly at: number; readonly image: ImageRef }[];
}

/** What one supervised update needs. */
export interface SupervisedOptions {
  readonly trainer: Trainer;
  readonly demonstrations: readonly Demonstration[];
  readonly adam: AdamOptions;
  readonly tokensPerMicroBatch: number;
  readonly signal?: AbortSignal;
  onProgress?(progress: { readonly done: number; readonly total: number }): void;
}

/**
 * One optimizer step of cross-entropy over the trained tokens:  L = −Σ w·log π / Σ w.
 * A non-finite loss throws; a non-finite gradient is left out by the trainer and shows as `train/skipped`.
 */
export async function updateSupervised(options: SupervisedOptions): Promise<Metrics> {
  const { trainer, signal } = options;
  const examples = options.demonstrations.map(({ ids, trained, weight = 1, images = [] }) => ({
    ids,
    images,
    trained: trained[0] ? trained.with(0, 0) : trained, // nothing predicts the first token
    weight,
  }));
  const weights = examples.reduce((sum, { trained, weight }) => sum + weight * count(trained), 0);
  if (!(weights > 0)) {
    throw new ConfigError(
      `${examples.length} demonstrations have no token to learn; mark replies in \`trained\` with 1`,
    );
  }
  let [loss, done, tokens] = [0, 0, 0];
  const tokensPerMicroBatch = Math.min(
    options.tokensPerMicroBatch,
    trainer.tokensPerCall ?? Number.POSITIVE_INFINITY,
  );
  for (const { members, rows } of packMicroBatches(examples, { tokensPerMicroBatch, balance: true })) {
    signal?.throwIfAborted();
    const pass = await trainer.forward(rows, {
      temperature: 1,
      outputs: ['logprob'],
      ...(signal ? { signal } : {}),
    });
    const gradients = members.map(({ ids, trained, weight }, row) => {
      const gradient = new Float32Array(ids.length);
      for (let at = 1; at < ids.length; at++) {
        if (!trained[at]) continue;
        gradient[at] = -weight / weights;
        loss -= (weight / weights) * pass.outputs.logprob![row]![at]!;
        tokens++;
      }
      return gradient;
    });
    if (!Number.isFinite(loss)) {
      await pass.discard();
      throw new TrainerError(
        `the loss of demonstrations ${done} to ${done + members.length - 1} is ${loss}; lower the learning rate (now ${options.adam.learningRate}) or look at these rows`,
      );
    }
    await pass.backward({ logprob: gradients });
    done += members.length;
    options.onProgress?.({ done, total: examples.length });
  }
  const { gradNorm, skipped } = await trainer.optimStep(options.adam);
  return {
    'train/loss': loss,
    'train/grad_norm': gradNorm,
    'train/lr': options.adam.learningRate,
    'train/tokens': tokens,
    'train/skipped': skipped ? 1 : 0,
  };
}

const count = (marks: Uint8Array) => marks.reduce((sum, mark) => sum + (mark ? 1 : 0), 0);

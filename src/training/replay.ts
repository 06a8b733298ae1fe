import { TrainerError } from '../errors.ts';
import type { Metrics } from '../types.ts';
import type { CustomAdvantage } from './advantages/advantage.ts';
import type { StoredBatch } from './batch-file.ts';
import type { CustomLoss } from './losses/loss.ts';
import { isCustom } from './parts.ts';
import { gather, scatter } from './score.ts';
import type { Trainer } from './trainer.ts';
import { updatePolicy } from './update-policy.ts';

/** A stored batch, run again: first row by row, to see which one is at fault, then as the update it was. */
export interface ReplayReport {
  readonly rows: readonly ReplayedRow[];
  /** Metrics of the whole update; absent if it failed again. */
  readonly metrics?: Metrics;
  /** Why the whole update failed. */
  readonly problem?: string;
}

export interface ReplayedRow {
  readonly trajectory: string;
  readonly segment: number;
  readonly tokens: number;
  /** The smallest log-prob of its trained tokens, and where. */
  readonly lowest: { readonly logprob: number; readonly at: number; readonly id: number };
  /** Norm of the gradient of the mean log-prob; NaN where it is not finite. */
  readonly gradNorm: number;
  readonly problem?: string;
}

/**
 * The trainer is used up: its gradient is taken row by row with a learning rate of 0, which moves no weight but
 * fills the optimizer's averages, and the update at the end moves the weights.
 */
export async function replayBatch(options: {
  readonly stored: StoredBatch;
  readonly trainer: Trainer;
  readonly reference?: Trainer;
  readonly critic?: Trainer;
  readonly signal?: AbortSignal;
}): Promise<ReplayReport> {
  const { stored, trainer, signal } = options;
  const { batch, algorithm, optimizer } = stored;
  for (const part of [algorithm.advantage, algorithm.loss]) {
    if (isCustom<CustomAdvantage | CustomLoss>(part)) {
      throw new TrainerError(
        `the batch was made with the custom part '${part.name}', which is code and not in the file; replay it from a program with replayBatch()`,
      );
    }
  }
  const rows: ReplayedRow[] = [];
  for (const { trajectory, segment, ids, trained, positions } of batch.sequences) {
    signal?.throwIfAborted();
    const pass = await trainer.forward([{ ids, targets: trained }], {
      temperature: stored.temperature,
      outputs: ['logprob'],
      ...(signal ? { signal } : {}),
    });
    const logprobs = gather(pass.outputs.logprob![0]!, positions);
    const bad = logprobs.findIndex((logprob) => !Number.isFinite(logprob));
    const worst = bad >= 0 ? bad : logprobs.indexOf(logprobs.reduce((a, b) => Math.min(a, b)));
    await pass.backward({
      logprob: [
        scatter(
          positions.map(() => 1),
          positions,
          ids.length,
        ).map((one) => one / positions.length),
      ],
    });
    const { gradNorm, skipped } = await trainer.optimStep({
      ...optimizer.adam,
      learningRate: 0,
      weightDecay: 0,
    });
    const at = positions[worst]!;
    rows.push({
      trajectory: batch.trajectories[trajectory]!.id,
      segment,
      tokens: positions.length,
      lowest: { logprob: logprobs[worst]!, at, id: ids[at]! },
      gradNorm: skipped ? Number.NaN : gradNorm,
      ...(bad >= 0
        ? { problem: `the log-prob of token ${at} (id ${ids[at]}) is ${logprobs[bad]}` }
        : skipped
          ? { problem: 'its log-probs are finite, its gradient is not' }
          : {}),
    });
  }
  try {
    const { metrics } = await updatePolicy({ ...stored, ...options, guard: { onNonFinite: 'stop' } });
    return { rows, metrics };
  } catch (error) {
    if (!(error instanceof TrainerError)) throw error;
    return { rows, problem: error.message };
  }
}

import assert from 'node:assert/strict';
import type { AdamOptions, Output, Outputs, Row, Trainer } from '../src/training/trainer.ts';

export interface ProbeOptions {
  readonly vocabulary: number;
  readonly tolerance: number;
  readonly learningRate: number;
}

/** What the cases of a trainer's contract ask and compare. */
export class TrainerProbe {
  readonly rows: readonly Row[] = [row([1, 2, 3, 4, 5, 6], 3), row([2, 3, 1, 4], 1)];
  /** Every output that the trainer can give. */
  readonly outputs: readonly Output[];
  readonly adam: AdamOptions;
  readonly #options: ProbeOptions;

  constructor(can: Trainer['can'], options: ProbeOptions) {
    this.#options = options;
    const others = (['entropy', 'sumSquares', 'value'] as const).filter((output) => can.has(output));
    this.outputs = ['logprob', ...others];
    const { learningRate } = options;
    this.adam = { learningRate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
  }

  near(one: number, other: number, what: string): void {
    const within = this.#options.tolerance * Math.max(1, Math.abs(other));
    assert.ok(Math.abs(one - other) <= within, `${what}: ${one} against ${other}`);
  }

  equal(one: Outputs, other: Outputs, what: string): void {
    for (const output of this.outputs) {
      one[output]!.forEach((values, at) => {
        values.forEach((value, position) => {
          this.near(value, other[output]![at]![position]!, `${what}, ${output} of row ${at} at ${position}`);
        });
      });
    }
  }

  score(trainer: Trainer, rows: readonly Row[] = this.rows, temperature = 1): Promise<Outputs> {
    return trainer.score(rows, { temperature, outputs: this.outputs });
  }

  /** Adds the gradient of a loss that falls as `output` rises, times −`by`. */
  async backward(
    trainer: Trainer,
    rows: readonly Row[] = this.rows,
    { output = 'logprob' as Output, by = -1 } = {},
  ): Promise<void> {
    const pass = await trainer.forward(rows, { temperature: 1, outputs: [output] });
    const gradients = rows.map(({ targets }) => Float32Array.from(targets, (on) => by * on));
    await pass.backward({ [output]: gradients });
  }

  /** Norm of the gradient since the last step; the weights stay as they are. */
  async gradNorm(trainer: Trainer): Promise<number> {
    return (await trainer.optimStep({ ...this.adam, learningRate: 0 })).gradNorm;
  }

  /** log π of every token that may follow `first`. */
  async distribution(trainer: Trainer, first: number): Promise<number[]> {
    const { vocabulary } = this.#options;
    const perCall = Math.max(1, Math.floor((trainer.tokensPerCall ?? 4096) / 2));
    const logprobs: number[] = [];
    for (let from = 0; from < vocabulary; from += perCall) {
      const ids = Array.from({ length: Math.min(perCall, vocabulary - from) }, (_, at) => from + at);
      const rows = ids.map((id) => row([first, id], 1));
      const scored = await trainer.score(rows, { temperature: 1, outputs: ['logprob'] });
      logprobs.push(...scored.logprob!.map((values) => values[1]!));
    }
    return logprobs;
  }
}

/** A row whose tokens from position `from` on are targets. */
export function row(ids: readonly number[], from: number): Row {
  return { ids: Int32Array.from(ids), targets: Uint8Array.from(ids, (_, at) => (at >= from ? 1 : 0)) };
}

export const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  AdamOptions,
  Gradients,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
  TrainerFactory,
  WeightUpdate,
} from 'rollcall/ports';
import { Bigram } from './bigram.ts';
import { ARITHMETIC } from './engine.ts';

/** Trains a bigram table and moves it into the tables of its servers itself. */
export class BigramTrainer implements Trainer {
  readonly can: Trainer['can'] = new Set(['temperature']);
  readonly publishes = 'pushed';
  readonly arithmetic = ARITHMETIC;
  readonly tokensPerCall = 512;
  readonly #model: Bigram;
  readonly #served: readonly Bigram[];
  readonly #gradient: Float64Array;
  readonly #first: Float64Array;
  readonly #second: Float64Array;
  #steps = 0;

  constructor(vocabulary: number, served: readonly Bigram[]) {
    this.#model = new Bigram(vocabulary);
    this.#served = served;
    this.#gradient = new Float64Array(vocabulary ** 2);
    this.#first = new Float64Array(vocabulary ** 2);
    this.#second = new Float64Array(vocabulary ** 2);
  }

  async score(rows: readonly Row[], { temperature, signal }: ScoreOptions): Promise<Outputs> {
    signal?.throwIfAborted();
    const logprob = rows.map(({ ids, targets }) =>
      Float32Array.from(ids, (id, at) =>
        targets[at] ? this.#model.logprobs(ids[at - 1]!, temperature)[id]! : 0,
      ),
    );
    return { logprob };
  }

  async forward(rows: readonly Row[], options: ScoreOptions): Promise<Pass> {
    const outputs = await this.score(rows, options);
    const backward = async ({ logprob = [] }: Gradients) => {
      for (const [row, by] of logprob.entries()) this.#addGradient(rows[row]!, by, options.temperature);
    };
    return { outputs, backward, discard: async () => {} };
  }

  async optimStep(adam: AdamOptions): Promise<{ gradNorm: number; skipped: boolean }> {
    const gradNorm = Math.sqrt(this.#gradient.reduce((sum, value) => sum + value ** 2, 0));
    const skipped = !Number.isFinite(gradNorm);
    if (!skipped) this.#step(adam, gradNorm);
    this.#gradient.fill(0);
    return { gradNorm, skipped };
  }

  async publish(version: number): Promise<WeightUpdate> {
    for (const { logits } of this.#served) logits.set(this.#model.logits);
    return { kind: 'pushed', version };
  }

  async save(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    const state = {
      logits: [...this.#model.logits],
      first: [...this.#first],
      second: [...this.#second],
      steps: this.#steps,
    };
    await writeFile(join(directory, 'bigram.json'), JSON.stringify(state));
  }

  async load(directory: string): Promise<void> {
    const state = JSON.parse(await readFile(join(directory, 'bigram.json'), 'utf8'));
    this.#model.logits.set(state.logits);
    this.#first.set(state.first);
    this.#second.set(state.second);
    this.#steps = state.steps;
    this.#gradient.fill(0);
  }

  async close(): Promise<void> {}

  /** d log π(id) / d logit = (1{id} − π) / temperature. */
  #addGradient({ ids, targets }: Row, by: Float32Array, temperature: number): void {
    const { vocabulary } = this.#model;
    for (let at = 1; at < ids.length; at++) {
      if (!targets[at]) continue;
      const previous = ids[at - 1]!;
      const logprobs = this.#model.logprobs(previous, temperature);
      for (const [id, logprob] of logprobs.entries()) {
        const slope = ((id === ids[at] ? 1 : 0) - Math.exp(logprob)) / temperature;
        this.#gradient[previous * vocabulary + id]! += by[at]! * slope;
      }
    }
  }

  #step({ learningRate, beta1, beta2, epsilon, weightDecay, clipNorm }: AdamOptions, norm: number): void {
    this.#steps++;
    const scale = clipNorm > 0 && norm > clipNorm ? clipNorm / norm : 1;
    const { logits } = this.#model;
    for (let at = 0; at < logits.length; at++) {
      const gradient = this.#gradient[at]! * scale;
      this.#first[at] = beta1 * this.#first[at]! + (1 - beta1) * gradient;
      this.#second[at] = beta2 * this.#second[at]! + (1 - beta2) * gradient ** 2;
      const mean = this.#first[at]! / (1 - beta1 ** this.#steps);
      const spread = Math.sqrt(this.#second[at]! / (1 - beta2 ** this.#steps)) + epsilon;
      logits[at]! -= learningRate * (mean / spread + weightDecay * logits[at]!);
    }
  }
}

export function bigramTrainers(vocabulary: number, served: readonly Bigram[]): TrainerFactory {
  return { name: 'bigram', open: async () => new BigramTrainer(vocabulary, served) };
}

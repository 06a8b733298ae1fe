/**
 * The `Trainer` port on a Tinker server. A loss is ours: the server gives log-probs, we take the loss's gradient by each,
 * and the server's own loss carries it back. A server that sums over tokens gets it as weights of its cross-entropy
 * Σ −w·log π, whose gradient by log π is −w. One that averages gets it as advantages of its importance sampling
 * −A·exp(log π − old), whose gradient where old is log π is −A, multiplied by what the averages divide by.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TrainerError } from '../errors.ts';
import type { WeightUpdate } from '../inference/server.ts';
import type {
  AdamOptions,
  Gradients,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
} from '../training/trainer.ts';
import { adapterFiles } from './archive.ts';
import type { KnownServer } from './known-servers.ts';
import type { Deed, RemoteModel } from './model.ts';
import type { Spending } from './spending.ts';
import { datumOf, type Loss, logprobsOf, requestsOf } from './wire.ts';

/** In a checkpoint's folder: where the server keeps the state. */
const STATE_FILE = 'tinker.json';

export interface TinkerTrainerOptions {
  readonly model: RemoteModel;
  readonly base: string;
  readonly server: KnownServer;
  /** What carries gradients where the server averages. */
  readonly loss: Exclude<Loss, 'cross_entropy'>;
  /** Told with each published path. */
  readonly spending: Spending;
  readonly published: (version: number, path: string) => void;
  readonly closed: () => void;
}

/** A row's gradient by each log-prob, and the log-probs that it was taken at. */
interface Slope {
  readonly row: Row;
  readonly gradient: Float32Array;
  readonly logprobs: Float32Array;
}

export class TinkerTrainer implements Trainer {
  readonly can: Trainer['can'] = new Set();
  readonly publishes = 'lora';
  readonly clips: boolean;
  readonly #options: TinkerTrainerOptions;
  readonly #model: RemoteModel;
  /** Since the last step; sent with it, because what an average divides by is known only then. */
  #slopes: Slope[] = [];
  #isClosed = false;

  constructor(options: TinkerTrainerOptions) {
    this.#options = options;
    this.#model = options.model;
    this.clips = options.server.clips;
  }

  async score(rows: readonly Row[], { temperature, outputs, signal }: ScoreOptions): Promise<Outputs> {
    signal?.throwIfAborted();
    if (temperature !== 1)
      throw new TrainerError(`the temperature is ${temperature}; the Tinker protocol scores at 1 only`);
    const other = outputs.find((output) => output !== 'logprob');
    if (other !== undefined) throw new TrainerError(`the Tinker protocol gives log-probs only, no ${other}`);
    const items = rows.map((row, index) => ({ row: checked(row, index) }));
    const logprob: Float32Array[] = [];
    for (const part of requestsOf(items)) {
      const data = part.map(({ row }) => datumOf(row, { weights: Float32Array.from(row.targets) }));
      const answer = await this.#model.forward({ data, loss_fn: 'cross_entropy' }, { signal });
      logprob.push(
        ...logprobsOf(
          answer,
          part.map(({ row }) => row),
        ),
      );
    }
    return { logprob };
  }

  async forward(rows: readonly Row[], options: ScoreOptions): Promise<Pass> {
    const outputs = await this.score(rows, options);
    return {
      outputs,
      backward: async (gradients) => {
        this.#slopes.push(...slopesOf(rows, outputs.logprob!, gradients));
      },
      discard: async () => {},
    };
  }

  async optimStep(adam: AdamOptions): Promise<{ readonly gradNorm: number; readonly skipped: boolean }> {
    const slopes = this.#slopes;
    this.#slopes = [];
    if (adam.clipNorm > 0 && !this.clips)
      throw new TrainerError(`clipNorm is ${adam.clipNorm}, which this Tinker server ignores; use 0`);
    if (!slopes.every(({ gradient }) => gradient.every(Number.isFinite)))
      return { gradNorm: Number.NaN, skipped: true };
    const metrics = await this.#model.step(this.#deed(slopes, adam));
    return { gradNorm: gradNormOf(metrics), skipped: false };
  }

  #deed(slopes: readonly Slope[], adam: AdamOptions): Deed {
    const { server, loss } = this.#options;
    // A sequence without a gradient would be paid for, and would count in an average.
    const steep = slopes.filter(({ gradient }) => gradient.some((value) => value !== 0));
    if (server.reduction === 'token-sum') {
      const carried = steep.map(({ row, gradient }) => ({ row, inputs: { weights: scaled(gradient, -1) } }));
      return { loss: 'cross_entropy', carried, adam };
    }
    const carried = steep.map(({ row, gradient, logprobs }) => {
      const targets = row.targets.reduce((sum, one) => sum + one, 0);
      const advantages = scaled(gradient, -targets * steep.length);
      return { row, inputs: { weights: Float32Array.from(row.targets), logprobs, advantages } };
    });
    return { loss, carried, adam };
  }

  async publish(version: number): Promise<WeightUpdate> {
    const path = await this.#model.publish(version);
    this.#options.published(version, path);
    return { kind: 'lora', version, name: `policy@${version}`, path };
  }

  /** The state stays on the server, and the folder says where; the adapter comes home in PEFT's layout. */
  async save(directory: string): Promise<void> {
    const path = await this.#model.save('checkpoint');
    await mkdir(directory, { recursive: true });
    for (const [name, bytes] of adapterFiles(await this.#model.archive()))
      await writeFile(join(directory, name), bytes);
    await writeFile(
      join(directory, STATE_FILE),
      `${JSON.stringify({ model: this.#options.base, path }, null, 2)}\n`,
    );
  }

  async load(directory: string): Promise<void> {
    const file = join(directory, STATE_FILE);
    const { path, model } = JSON.parse(await readFile(file, 'utf8')) as { path?: unknown; model?: unknown };
    if (typeof path !== 'string' || model !== this.#options.base)
      throw new TrainerError(`${file} is a state of ${model}; ${this.#options.base} is trained`);
    this.#slopes = [];
    await this.#model.load(path);
  }

  metrics(): Readonly<Record<string, number>> {
    return this.#options.spending.metrics();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#model.close();
    this.#options.closed();
  }
}

function checked(row: Row, index: number): Row {
  if (row.images?.length) throw new TrainerError(`row ${index}: images are not sent to Tinker servers`);
  if (row.targets.length !== row.ids.length || row.targets[0] !== 0)
    throw new TrainerError(
      `row ${index}: ${row.targets.length} targets, the first ${row.targets[0]}, for ${row.ids.length} ids`,
    );
  return row;
}

function slopesOf(rows: readonly Row[], logprobs: readonly Float32Array[], gradients: Gradients): Slope[] {
  const other = Object.keys(gradients).find((name) => name !== 'logprob');
  if (other !== undefined) throw new TrainerError(`the Tinker protocol carries no gradient by ${other}`);
  const { logprob } = gradients;
  if (logprob?.length !== rows.length)
    throw new TrainerError(`gradients are for ${logprob?.length ?? 0} rows; the pass has ${rows.length}`);
  return rows.map((row, at) => ({
    row,
    gradient: Float32Array.from(logprob[at]!, (value, place) => (row.targets[place] ? value : 0)),
    logprobs: logprobs[at]!,
  }));
}

const scaled = (values: Float32Array, by: number) => values.map((value) => (value === 0 ? 0 : by * value));

/** Servers name it as they like (`skyrl.ai/grad_norm`); NaN where one does not say. */
function gradNormOf(metrics: Readonly<Record<string, number>>): number {
  const name = Object.keys(metrics).find((key) => /(^|[/:_.])grad_norm\b/.test(key));
  return name === undefined ? Number.NaN : Number(metrics[name]);
}

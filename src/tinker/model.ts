/**
 * A model on a server, and what it takes to have it again. Its weights are a function of its seed or last saved state and
 * of the steps since, so a server that was started again is brought to where it stood: no step is lost and none is taken
 * twice.
 */
import { TrainerError } from '../errors.ts';
import type { AdamOptions, Row } from '../training/trainer.ts';
import { type CallOptions, StateLost, type TinkerClient } from './client.ts';
import { encodeLoss } from './protobuf.ts';
import type { Session } from './session.ts';
import type { Spending } from './spending.ts';
import { datumOf, type Loss, type LossInput, type LossOutput, requestsOf } from './wire.ts';

/** Which low-rank matrices are trained. */
export interface TinkerLora {
  readonly rank: number;
  /** Of the matrices' first values; default 0. */
  readonly seed?: number;
  /** Default true, as the service's own; SkyRL's servers decide it themselves. */
  readonly unembedding?: boolean;
  readonly mlp?: boolean;
  readonly attention?: boolean;
}

/** A sequence with the inputs of the server's loss, of the row's length. */
interface Carried {
  readonly row: Row;
  readonly inputs: Readonly<Record<string, Float32Array>>;
}

/** The gradient of a batch and the step on it: done whole, or not at all. */
export interface Deed {
  readonly loss: Loss;
  readonly carried: readonly Carried[];
  readonly adam: AdamOptions;
}

/** Steps that are done again at most when a server is lost. */
const STEPS_PER_SAVE = 10;
/** A server that is lost so often during one call is not restarted but failing. */
const MOST_RESTORES = 5;

export interface ModelOptions {
  readonly session: Session;
  readonly base: string;
  readonly lora: TinkerLora;
  readonly batches: 'json' | 'protobuf';
  readonly spending: Spending;
  readonly log: (line: string) => void;
}

export class RemoteModel {
  readonly #options: ModelOptions;
  readonly #client: TinkerClient;
  #id: string | undefined;
  /** Path of a saved state; undefined is the model as it was made. */
  #saved: string | undefined;
  #since: Deed[] = [];
  #saves = 0;
  /** Counts the calls on the model, so that a server can tell one that comes twice. */
  #calls = 0;
  /** A step failed halfway: what it left of a gradient must not meet the next one. */
  #isTainted = false;
  #restoring: Promise<void> | undefined;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#client = options.session.client;
  }

  async open(): Promise<void> {
    await this.#whole(async () => {
      this.#id = await this.#create();
    });
  }

  /** Log-probs of all tokens after the first. */
  async forward(input: LossInput, options: CallOptions = {}): Promise<LossOutput> {
    const tokens = input.data.reduce((sum, { model_input }) => sum + model_input.chunks[0].tokens.length, 0);
    this.#options.spending.add('forwardTokens', tokens);
    return this.#whole(() => {
      const [path, body] = this.#batch('forward', input);
      return this.#client.future<LossOutput>(path, body, options);
    });
  }

  async step(deed: Deed): Promise<Readonly<Record<string, number>>> {
    let metrics: Readonly<Record<string, number>>;
    try {
      metrics = await this.#whole(() => this.#do(deed));
    } catch (error) {
      this.#isTainted = true;
      throw error;
    }
    this.#since.push(deed);
    if (this.#since.length >= STEPS_PER_SAVE) await this.save('restore');
    return metrics;
  }

  /** Weights that servers can sample with; the path is theirs to load. */
  async publish(version: number): Promise<string> {
    return this.#whole(async () => {
      const body = { ...this.#call('save_weights_for_sampler'), path: `v${version}-${++this.#saves}` };
      return (await this.#client.future<{ path: string }>('save_weights_for_sampler', body)).path;
    });
  }

  /** The adapter that is trained: packed, or in a folder of the server. */
  async archive(): Promise<Buffer | { readonly folder: string }> {
    return this.#whole(async () => {
      const [, run, checkpoint] = /^tinker:\/\/([^/]+)\/(.+)$/.exec(await this.publish(0)) ?? [];
      return this.#client.download(`/api/v1/training_runs/${run}/checkpoints/${checkpoint}/archive`);
    });
  }

  /** Weights and the optimizer's state, on the server's disk. */
  async save(name: string): Promise<string> {
    const path = await this.#whole(async () => {
      const body = { ...this.#call('save_weights'), path: `${name}-${++this.#saves}` };
      return (await this.#client.future<{ path: string }>('save_weights', body)).path;
    });
    this.#saved = path;
    this.#since = [];
    return path;
  }

  /** On a new model: servers load a state only before anything else was done to a model. */
  async load(path: string): Promise<void> {
    const old = this.#id;
    this.#saved = path;
    this.#since = [];
    await this.#whole(() => this.#build());
    await this.#unload(old);
  }

  async close(): Promise<void> {
    const id = this.#id;
    this.#id = undefined;
    await this.#unload(id);
  }

  /** Does what needs the model; where the model is lost, builds it again first. */
  async #whole<T>(work: () => Promise<T>): Promise<T> {
    for (let restores = 0; ; restores++) {
      try {
        await this.#restoring;
        if (this.#isTainted) await this.#restore('a step failed halfway');
        return await work();
      } catch (error) {
        if (!(error instanceof StateLost)) throw error;
        if (restores >= MOST_RESTORES) throw new TrainerError(error.message, { cause: error });
        await this.#restore(error.message);
      }
    }
  }

  /** One at a time: sampling and training may both find the model gone. */
  #restore(why: string): Promise<void> {
    this.#restoring ??= (async () => {
      const { session, log } = this.#options;
      const from = this.#saved ?? 'its seed';
      log(
        `the model on ${this.#client.url} is lost (${why}); it is built again from ${from} and ${this.#since.length} steps`,
      );
      const old = this.#id;
      session.forget();
      await this.#build();
      await this.#unload(old);
    })().finally(() => {
      this.#restoring = undefined;
    });
    return this.#restoring.catch((error: unknown) => {
      if (!(error instanceof StateLost)) throw error; // else it is tried again
    });
  }

  async #build(): Promise<void> {
    this.#id = await this.#create();
    if (this.#saved !== undefined) {
      const body = { ...this.#call('load_weights'), path: this.#saved, optimizer: true };
      await this.#client.future('load_weights', body, { once: true });
    }
    for (const deed of this.#since) await this.#do(deed);
  }

  async #create(): Promise<string> {
    const { session, base, lora } = this.#options;
    const body = {
      session_id: await session.id(),
      model_seq_id: session.next(),
      base_model: base,
      lora_config: {
        rank: lora.rank,
        seed: lora.seed ?? 0,
        train_unembed: lora.unembedding ?? true,
        train_mlp: lora.mlp ?? true,
        train_attn: lora.attention ?? true,
      },
      type: 'create_model',
    };
    const { model_id: id } = await this.#client.future<{ model_id: string }>('create_model', body);
    this.#calls = 0;
    this.#isTainted = false;
    return id;
  }

  /** Where a batch is sent, and as what: in protobuf one call does both. */
  #batch(type: 'forward' | 'forward_backward', input: LossInput): [path: string, body: unknown] {
    if (this.#options.batches === 'json') return [type, { ...this.#call(type), [`${type}_input`]: input }];
    const { model_id: model, seq_id: sequence } = this.#call(type);
    const forwardOnly = type === 'forward';
    return ['forward_backward', encodeLoss({ model: model!, sequence, input, forwardOnly })];
  }

  #call(type: string) {
    return { type, model_id: this.#id, seq_id: ++this.#calls };
  }

  /** The parts of a batch are begun in order and waited for together; the step follows when all gradients are there. */
  async #do({ loss, carried, adam }: Deed): Promise<Readonly<Record<string, number>>> {
    const waiting: (() => Promise<unknown>)[] = [];
    for (const part of requestsOf(carried)) {
      const input: LossInput = { data: part.map(({ row, inputs }) => datumOf(row, inputs)), loss_fn: loss };
      const [path, body] = this.#batch('forward_backward', input);
      this.#options.spending.add(
        'trainedTokens',
        part.reduce((sum, { row }) => sum + row.ids.length - 1, 0),
      );
      waiting.push(await this.#client.begin(path, body, { once: true }));
    }
    await Promise.all(waiting.map((result) => result()));
    const params = {
      learning_rate: adam.learningRate,
      beta1: adam.beta1,
      beta2: adam.beta2,
      eps: adam.epsilon,
      weight_decay: adam.weightDecay,
      ...(adam.clipNorm > 0 ? { grad_clip_norm: adam.clipNorm } : {}),
    };
    const body = { ...this.#call('optim_step'), adam_params: params };
    const answer = await this.#client.future<{ metrics?: Readonly<Record<string, number>> | null }>(
      'optim_step',
      body,
      {
        once: true,
      },
    );
    return answer.metrics ?? {};
  }

  /** Frees the server's memory; a server that has forgotten the model has nothing to free. */
  async #unload(id: string | undefined): Promise<void> {
    if (id === undefined) return;
    const limit = AbortSignal.timeout(UNLOAD_MS);
    const body = { model_id: id, type: 'unload_model' };
    await this.#client.future('unload_model', body, { signal: limit }).catch(() => {});
  }
}

const UNLOAD_MS = 10_000;

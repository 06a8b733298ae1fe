/** The `Trainer` port on a PyTorch worker group. */
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { WeightUpdate } from '../inference/server.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type {
  AdamOptions,
  Gradients,
  Outputs,
  Pass,
  Row,
  ScoreOptions,
  Trainer,
} from '../training/trainer.ts';
import type { Reply, WorkerConnection } from './connection.ts';
import { gradientArrays, rowArrays, spreadOutputs } from './rows.ts';
import { type Sight, showRows } from './sight.ts';
import type { OpenModel, WorkerGroup } from './worker-group.ts';

/** Versions whose folders stay; a server may still be reading the last one. */
const KEPT_VERSIONS = 2;
const POLL_MS = 250;

export interface PublishOptions {
  /** Visible to the servers under the same path. */
  readonly directory: string;
  readonly send: 'weights' | 'adapter';
  /** Servers that take weights from memory to memory; nothing is written then. */
  readonly push: { readonly servers: readonly string[]; readonly by: string } | undefined;
}

/** Opens a model in the group; `params` are those of the protocol's `open`. */
export async function openTorchTrainer(
  group: WorkerGroup,
  name: string,
  params: Readonly<Record<string, unknown>>,
  publishing: PublishOptions,
  clock: Clock,
  sight?: Sight,
): Promise<TorchTrainer> {
  const { model, reply } = await group.open(name, params);
  return new TorchTrainer(group, name, model, reply, publishing, clock, sight);
}

export class TorchTrainer implements Trainer {
  readonly can: Trainer['can'];
  readonly publishes: WeightUpdate['kind'];
  readonly #group: WorkerGroup;
  readonly #name: string;
  readonly #model: OpenModel;
  readonly #publishing: PublishOptions;
  readonly #clock: Clock;
  readonly #sight: Sight | undefined;
  readonly #written: string[] = [];
  #tokens: number;

  constructor(
    group: WorkerGroup,
    name: string,
    model: OpenModel,
    { values }: Reply,
    publishing: PublishOptions,
    clock: Clock,
    sight?: Sight,
  ) {
    this.#clock = clock;
    this.#sight = sight;
    this.#group = group;
    this.#name = name;
    this.#model = model;
    this.#publishing = publishing;
    this.can = new Set(values['can'] as Iterable<'entropy'>);
    this.publishes = publishing.push ? 'pushed' : publishing.send === 'adapter' ? 'lora' : 'disk';
    this.#tokens = Number(values['tokens']);
  }

  /** What all ranks compute at once; less after one ran out of memory. */
  get tokensPerCall(): number {
    return this.#tokens;
  }

  async score(rows: readonly Row[], { signal, ...how }: ScoreOptions): Promise<Outputs> {
    if (rows.length === 0) return spreadOutputs(new Map(), rows, []);
    const { arrays, ...shown } = await this.#show(rows);
    const reply = await this.#group.call((connection) =>
      connection.call('score', { model: this.#name, ...how }, arrays, signal),
    );
    this.#note(reply);
    return shown.contract(spreadOutputs(reply.arrays, shown.rows, how.outputs));
  }

  async forward(rows: readonly Row[], { signal, ...how }: ScoreOptions): Promise<Pass> {
    const { arrays, ...shown } = await this.#show(rows);
    const model = this.#name;
    const compute = async (connection: WorkerConnection, generation: number) => {
      const reply = await connection.call('forward', { model, ...how }, arrays, signal);
      return { reply, generation };
    };
    const computed = await this.#group.call(compute);
    this.#note(computed.reply);
    return {
      outputs: shown.contract(spreadOutputs(computed.reply.arrays, shown.rows, how.outputs)),
      backward: async (gradients) => {
        const given = gradientArrays(shown.spread(gradients), shown.rows);
        await this.#group.call(async (connection, generation) => {
          const isKept = computed.generation === generation;
          const { reply } = isKept ? computed : await compute(connection, generation);
          await connection.call('backward', { model, pass: reply.values['pass'] }, given);
        });
        this.#model.journal.add({ kind: 'backward', forward: { ...how }, rows: arrays, gradients: given });
      },
      discard: () =>
        this.#group.call(async (connection, generation) => {
          if (computed.generation !== generation) return; // it went with its group
          await connection.call('discard', { model, pass: computed.reply.values['pass'] });
        }),
    };
  }

  async optimStep(adam: AdamOptions): Promise<{ readonly gradNorm: number; readonly skipped: boolean }> {
    const params = { ...adam };
    const { values } = await this.#group.call((connection) =>
      connection.call('optimStep', { model: this.#name, adam: params }),
    );
    this.#model.journal.add({ kind: 'step', adam: params });
    return { gradNorm: toNumber(values['gradNorm']), skipped: values['skipped'] === true };
  }

  async publish(version: number): Promise<WeightUpdate> {
    const { directory, send, push } = this.#publishing;
    if (push) {
      const params = { model: this.#name, ...push, version };
      await this.#group.call((connection) => connection.call('push', params));
      return { kind: 'pushed', version };
    }
    const path = join(resolve(directory), `version-${version}`);
    await rm(path, { recursive: true, force: true });
    const params = { model: this.#name, directory: path, adapter: send === 'adapter' };
    await this.#group.call((connection) => connection.call('publish', params));
    if (!this.#written.includes(path)) this.#written.push(path);
    while (this.#written.length > KEPT_VERSIONS)
      await rm(this.#written.shift()!, { recursive: true, force: true });
    return send === 'adapter'
      ? { kind: 'lora', version, name: `policy@${version}`, path }
      : { kind: 'disk', version, path };
  }

  async save(directory: string): Promise<void> {
    const path = resolve(directory);
    await this.#group.call((connection) => connection.call('save', { model: this.#name, directory: path }));
    this.#model.journal.saved(path);
  }

  async startSave(directory: string): Promise<{ readonly written: Promise<boolean> }> {
    const path = resolve(directory);
    const params = { model: this.#name, directory: path };
    const began = await this.#group.call(async (connection, generation) => {
      await connection.call('startSave', params);
      return generation;
    });
    return { written: this.#untilWritten(path, began, this.#model.journal.mark()) };
  }

  /** A group that was started again stands where the lost one stood, which may be later than what was being saved. */
  async #untilWritten(path: string, began: number, mark: number): Promise<boolean> {
    for (;;) {
      const written = await this.#group.call(async (connection, generation) => {
        if (generation !== began) return 'lost';
        return (await connection.call('saved', { model: this.#name })).values['written'];
      });
      if (written === 'lost') return false;
      if (written === true) {
        this.#model.journal.saved(path, mark);
        return true;
      }
      await sleep(this.#clock, POLL_MS);
    }
  }

  async load(directory: string): Promise<void> {
    const path = resolve(directory);
    await this.#group.call((connection) => connection.call('load', { model: this.#name, directory: path }));
    this.#model.journal.loaded(path);
  }

  /** The next pass chooses anew how many tokens are computed at once. */
  async rest(): Promise<void> {
    await this.#group.call((connection) => connection.call('rest', { model: this.#name }));
  }

  async close(): Promise<void> {
    await this.#group.close(this.#name);
    for (const path of this.#written.splice(0)) await rm(path, { recursive: true, force: true });
  }

  /** Rows as the worker takes them, and the way back for its answers. */
  async #show(rows: readonly Row[]) {
    if (!this.#sight || rows.every(({ images = [] }) => images.length === 0)) {
      const same = <A>(arrays: A) => arrays;
      return { rows, contract: same<Outputs>, spread: same<Gradients>, arrays: rowArrays(rows) };
    }
    const shown = await showRows(rows, this.#sight);
    return { ...shown, arrays: new Map([...rowArrays(shown.rows), ...shown.arrays]) };
  }

  #note({ values }: Reply): void {
    this.#tokens = Number(values['tokens']);
  }
}

/** JSON has no word for what is not finite: Python's are `nan`, `inf` and `-inf`. */
function toNumber(value: unknown): number {
  if (typeof value === 'number') return value;
  if (value === 'inf') return Number.POSITIVE_INFINITY;
  return value === '-inf' ? Number.NEGATIVE_INFINITY : Number.NaN;
}

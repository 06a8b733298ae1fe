/**
 * A worker group that outlives its processes: when one dies, hangs or runs out of memory, the group is started again,
 * its models are brought to where they stood (journal.ts), and the call that was lost is made again.
 */
import { TrainerError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import type { Reply, WorkerConnection } from './connection.ts';
import { Journal } from './journal.ts';

type Params = Readonly<Record<string, unknown>>;

/** How a group is reached: started here, or at an address. */
export interface GroupSource {
  /** `mostTokens` limits what a rank computes at once. */
  reach(mostTokens: number | undefined): Promise<ReachedGroup>;
}

export interface ReachedGroup {
  readonly connection: WorkerConnection;
  stop(): Promise<void>;
}

export interface OpenModel {
  readonly params: Params;
  readonly journal: Journal;
}

interface Alive extends ReachedGroup {
  /** Which group this is: passes of an earlier one are gone. */
  readonly generation: number;
}

const FEWEST_TOKENS = 256;

export class WorkerGroup {
  readonly #source: GroupSource;
  readonly #log: (line: string) => void;
  readonly #models = new Map<string, OpenModel>();
  #alive: Promise<Alive> | undefined;
  #restartsLeft: number;
  #generations = 0;
  #mostTokens: number | undefined;
  #closed = false;

  constructor(source: GroupSource, restarts: number, log: (line: string) => void) {
    this.#source = source;
    this.#restartsLeft = restarts;
    this.#log = log;
  }

  /** Opens a model under a name; what follows is remembered until it is closed. */
  async open(name: string, params: Params): Promise<{ readonly model: OpenModel; readonly reply: Reply }> {
    const reply = await this.call((connection) => connection.call('open', { model: name, ...params }));
    const model = { params, journal: new Journal() };
    this.#models.set(name, model);
    return { model, reply };
  }

  /** Makes a call, and makes it again in a new group where the old one is lost meanwhile. */
  async call<T>(make: (connection: WorkerConnection, generation: number) => Promise<T>): Promise<T> {
    for (;;) {
      if (this.#closed) throw new TrainerError('the trainer is closed');
      this.#alive ??= this.#start();
      const current = this.#alive;
      const alive = await current;
      try {
        return await make(alive.connection, alive.generation);
      } catch (error) {
        // A call that was in progress when the group was ended starts no other.
        if (!alive.connection.lost || this.#closed) throw error;
        if (this.#alive === current) this.#alive = this.#restart(alive, error);
        await this.#alive;
      }
    }
  }

  /** The group ends with its last model. */
  async close(name: string): Promise<void> {
    if (!this.#models.delete(name) || this.#closed) return;
    if (this.#models.size > 0) {
      // Models are closed at once: where the last one ends the group, the others end with it.
      await this.call((connection) => connection.call('close', { model: name })).catch((error: unknown) => {
        if (!this.#closed) throw error;
      });
      return;
    }
    await this.end();
  }

  async end(): Promise<void> {
    this.#closed = true;
    const alive = await this.#alive?.catch(() => undefined);
    alive?.connection.close();
    await alive?.stop();
  }

  async #start(): Promise<Alive> {
    const reached = await this.#source.reach(this.#mostTokens);
    this.#log(reached.connection.description);
    return { ...reached, generation: ++this.#generations };
  }

  /** Until one stands where the lost one stood, or no restart is left. */
  async #restart(lost: Alive, why: unknown): Promise<Alive> {
    let last = lost;
    let cause = why;
    while (this.#restartsLeft-- > 0) {
      const { tokensTooMany } = last.connection.lost!;
      if (tokensTooMany !== undefined)
        this.#mostTokens = Math.max(FEWEST_TOKENS, Math.floor(tokensTooMany / 2));
      const less = this.#mostTokens === undefined ? '' : `, ${this.#mostTokens} tokens at once`;
      this.#log(`${messageOf(cause)}; the group is started again${less}`);
      await last.stop();
      last = await this.#start();
      try {
        for (const [name, model] of this.#models) await restore(last.connection, name, model);
        return last;
      } catch (error) {
        if (!last.connection.lost) throw error;
        cause = error;
      }
    }
    throw cause;
  }
}

async function restore(
  connection: WorkerConnection,
  name: string,
  { params, journal }: OpenModel,
): Promise<void> {
  const { directory, deeds } = journal.replay();
  await connection.call('open', { model: name, ...params });
  if (directory !== undefined) await connection.call('load', { model: name, directory });
  for (const deed of deeds) {
    if (deed.kind === 'step') {
      await connection.call('optimStep', { model: name, adam: deed.adam });
      continue;
    }
    const { values } = await connection.call('forward', { model: name, ...deed.forward }, deed.rows);
    await connection.call('backward', { model: name, pass: values['pass'] }, deed.gradients);
  }
}

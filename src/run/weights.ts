import { TrainerError } from '../errors.ts';
import { Attestor } from '../gateway/attest.ts';
import type { Gateway } from '../gateway/gateway.ts';
import {
  loadModels,
  type Models,
  refreshReference,
  saveModels,
  startSavingModels,
} from '../training/models.ts';
import type { UpdateResult, UpdateState } from '../training/update-options.ts';
import { readLatestCheckpoint } from '../watch/run-directory.ts';
import { attest } from './attest.ts';
import { publishWeights } from './publish-weights.ts';

/** An update whose weights the servers have. */
export interface PublishedUpdate extends UpdateResult {
  /** Version of the weights after the update. */
  readonly version: number;
}

interface WeightsOptions {
  readonly models: Models;
  readonly server: Gateway;
  /** Servers sleep while the trainer works. */
  readonly sleepWhileTraining?: boolean | undefined;
  readonly runDir: string;
  /** Prompts that are scored on every server after each update, to see that it arrived; none: nothing is checked. */
  readonly canaries?: readonly Int32Array[] | undefined;
  /** What the checkpoint holds that the run is resumed from. */
  readonly resumed?: { readonly version: number; readonly update: UpdateState | undefined } | undefined;
}

/** The models of a run, their version, and that every server has it. */
export class Weights {
  readonly models: Models;
  readonly #server: Gateway;
  readonly #sleepWhileTraining: boolean;
  readonly #runDir: string;
  readonly #attestor: Attestor | undefined;
  /** Prompts that the update scores too, so that attestation need not. */
  readonly canaries: readonly Int32Array[] | undefined;
  #version: number;
  #updateState: UpdateState | undefined;

  constructor({ models, server, sleepWhileTraining = false, runDir, canaries, resumed }: WeightsOptions) {
    this.#sleepWhileTraining = sleepWhileTraining;
    this.models = models;
    this.#server = server;
    this.#runDir = runDir;
    this.canaries = canaries;
    this.#attestor = canaries && new Attestor(canaries, models.trainer.arithmetic);
    this.#version = resumed?.version ?? 0;
    this.#updateState = resumed?.update;
  }

  get version(): number {
    return this.#version;
  }

  /** What the next update needs of those before it. */
  get updateState(): UpdateState | undefined {
    return this.#updateState;
  }

  /** Training, with the servers' memory free for it where they were asked to sleep. */
  async train<R>(work: () => Promise<R>): Promise<R> {
    if (!this.#sleepWhileTraining) return work();
    await this.#server.sleep();
    try {
      await this.#rest();
      const result = await work();
      await this.#rest();
      return result;
    } finally {
      await this.#server.wake();
    }
  }

  /** Models whose device the servers share see what is free now. */
  async #rest(): Promise<void> {
    const { trainer, reference, critic } = this.models;
    for (const model of new Set([trainer, reference, critic])) await model?.rest?.();
  }

  /** The weights after a step's update, as a new version on every server. */
  async publish(update: UpdateResult, step: number): Promise<PublishedUpdate> {
    this.#updateState = update.state;
    if (update.skipped?.weightsBroken) await this.#goBack(update.skipped.reason);
    else await refreshReference(this.models, step, this.#runDir);
    this.#version += 1;
    await this.send(update.skipped?.weightsBroken ? undefined : update.promptLogprobs);
    return { ...update, version: this.#version };
  }

  /** Sends the present version to every server, and sees that it has arrived. `known`: the trainer's log-probs of the canaries. */
  async send(known?: readonly Float32Array[]): Promise<void> {
    const { trainer } = this.models;
    const weights = await publishWeights(trainer, this.#server, this.#version);
    const sent = weights.kind === 'lora' ? 'adapter' : 'weights';
    if (this.#attestor) await attest(this.#attestor, this.#server, trainer, sent, known);
  }

  load(directory: string): Promise<void> {
    return loadModels(this.models, directory);
  }

  save(directory: string): Promise<void> {
    return saveModels(this.models, directory);
  }

  startSaving(directory: string): ReturnType<typeof startSavingModels> {
    return startSavingModels(this.models, directory);
  }

  /** To the last checkpoint. The model's own folder would not do: it holds neither critic nor adapter. */
  async #goBack(reason: string): Promise<void> {
    const checkpoint = await readLatestCheckpoint(this.#runDir);
    if (!checkpoint) {
      throw new TrainerError(
        `${reason}; there is no checkpoint yet, so the run cannot go back; a lower optimizer.learningRate may keep the weights whole, and a lower checkpoints.every leaves one sooner`,
      );
    }
    await this.load(checkpoint.path);
  }
}

/**
 * The trainer itself, synchronous and in one thread: a model in the heap, its gradient and its optimizer. The
 * trainer's worker wraps it (trainer-worker.ts); tests and benches may use it directly.
 */

import { availableParallelism, freemem } from 'node:os';
import { ConfigError, TrainerError } from '../../errors.ts';
import { type ExpandedRows, expandRows } from '../../lib/images/expand-rows.ts';
import type { AdamOptions, AdapterWeights, Gradients, Output, Outputs, Row } from '../../training/trainer.ts';
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import { Decoder } from '../model/decoder.ts';
import { readModelConfig, readWeights } from '../model/files.ts';
import { activationBytes, checkMemory, secondsPerThousandTokens, trainerBytes } from '../model/memory.ts';
import { PackedMatrix, ParameterStore } from '../model/parameters.ts';
import { type WeightSpec, weightSpecs } from '../model/weights.ts';
import { type PatchedImage, VisionEncoder } from '../vision/encoder.ts';
import { type ImageBytes, ImagePatches } from '../vision/image-patches.ts';
import { addSight } from '../vision/sight.ts';
import { Arena, ArenaScope } from './arena.ts';
import { fillAdapter, loraModules, loraSpecs } from './lora.ts';
import { type HeadPass, runHead, type ValueHead } from './output-head.ts';
import { checkRows, type Packing, packRows, splitRows } from './packing.ts';
import { emptyOutputs, gatherGradients, scatterOutputs } from './row-outputs.ts';
import { Tape } from './tape.ts';
import {
  adapterOf,
  loadTraining,
  readValueHead,
  saveTraining,
  type TrainingState,
  valueHeadSpecs,
} from './training-files.ts';
import type { TrainingOptions } from './training-options.ts';

export interface RunOptions {
  readonly temperature: number;
  readonly outputs: readonly Output[];
  /** The images that the rows show. */
  readonly images?: readonly ImageBytes[];
  /** Called between layers; may throw to end the run. */
  readonly checkpoint?: () => void;
}

/** Rows as they are computed, and the images they show. */
interface SeenRows extends ExpandedRows {
  readonly images: ReadonlyMap<string, PatchedImage>;
}

interface OpenPass {
  readonly seen: SeenRows;
  readonly outputs: readonly Output[];
  readonly head: HeadPass | undefined;
  readonly scope: ArenaScope;
}

const SCORED_TOKENS_AT_ONCE = 8192;

export class TrainingEngine {
  readonly config: ModelConfig;
  readonly kernels: Kernels;
  readonly #options: TrainingOptions;
  readonly #arena: Arena;
  readonly #model: ParameterStore;
  /** What is trained: the model's own store, or the adapter's and value head's. */
  readonly #trained: ParameterStore | undefined;
  readonly #extra: ParameterStore | undefined;
  readonly #decoder: Decoder;
  readonly #valueHead: ValueHead | undefined;
  readonly #eyes: { readonly encoder: VisionEncoder; readonly patches: ImagePatches } | undefined;
  readonly #passes = new Map<number, OpenPass>();
  #passCount = 0;
  #steps = 0;

  constructor(kernels: Kernels, options: TrainingOptions) {
    const { model, lora, trainable = true } = options;
    this.kernels = kernels;
    this.#options = options;
    this.config = readModelConfig(model);
    if (lora && !trainable) throw new ConfigError('lora and trainable: false exclude each other');
    this.#checkFits(trainable);
    this.#arena = new Arena(kernels);
    const half = options.weights === 'bfloat16' ? { backward: trainable } : undefined;
    this.#model = new ParameterStore(kernels, weightSpecs(this.config), trainable && !lora, half);
    const extraSpecs = [
      ...(lora ? loraSpecs(this.config, lora) : []),
      ...(options.valueHead ? valueHeadSpecs(this.config) : []),
    ];
    this.#extra = extraSpecs.length > 0 ? new ParameterStore(kernels, extraSpecs, trainable) : undefined;
    this.#trained = trainable && !lora ? this.#model : undefined;
    this.#decoder = new Decoder(
      kernels,
      this.config,
      this.#model,
      lora && {
        store: this.#extra!,
        rank: lora.rank,
        scale: lora.alpha / lora.rank,
        modules: loraModules(this.config, lora),
      },
    );
    const { vision } = this.config;
    this.#eyes = vision && {
      encoder: new VisionEncoder(kernels, this.config, this.#model),
      patches: new ImagePatches(model, vision),
    };
    if (options.valueHead) {
      const [weight, bias] = valueHeadSpecs(this.config).map(({ name }) => this.#extra!.get(name));
      this.#valueHead = { matrix: new PackedMatrix(weight!, 1), bias: bias! };
    }
    this.#model.fill((target) => readWeights(model, this.config, target));
    if (lora) {
      for (const spec of loraSpecs(this.config, lora)) {
        fillAdapter(spec, this.#extra!.value(this.#extra!.get(spec.name)), lora.seed ?? 0);
      }
    }
    readValueHead(model, this.#state, 'if there');
  }

  get steps(): number {
    return this.#steps;
  }

  /** Computes outputs only, a few thousand tokens at a time. */
  score(rows: readonly Row[], options: RunOptions): Outputs {
    const seen = this.#see(rows, options);
    const outputs = emptyOutputs(seen.rows, options.outputs);
    for (const part of splitRows(seen.rows, SCORED_TOKENS_AT_ONCE)) {
      const scope = new ArenaScope(this.#arena);
      try {
        const head = this.#run({ ...seen, rows: part.rows }, options, scope, false);
        if (head) scatterOutputs(head.outputs, part.rows, (name, row) => outputs[name]![part.indices[row]!]!);
      } finally {
        scope.release();
      }
    }
    return seen.contract(outputs);
  }

  forward(rows: readonly Row[], options: RunOptions): { pass: number; outputs: Outputs } {
    const seen = this.#see(rows, options);
    const scope = new ArenaScope(this.#arena);
    try {
      const head = this.#run(seen, options, scope, this.#stores.length > 0);
      const outputs = emptyOutputs(seen.rows, options.outputs);
      if (head) scatterOutputs(head.outputs, seen.rows, (name, row) => outputs[name]![row]!);
      const pass = ++this.#passCount;
      this.#passes.set(pass, { seen, outputs: options.outputs, head, scope });
      return { pass, outputs: seen.contract(outputs) };
    } catch (error) {
      scope.release();
      throw error;
    }
  }

  backward(pass: number, gradients: Gradients): void {
    const open = this.#passes.get(pass);
    if (!open) throw new TrainerError('this pass has ended: backward or discard came before');
    if (this.#stores.length === 0) throw new TrainerError('this trainer was opened with trainable: false');
    const { seen } = open;
    const gathered = gatherGradients(seen.spread(gradients), seen.rows, open.outputs);
    try {
      if (open.head && Object.keys(gathered).length > 0) open.head.backward(gathered);
    } finally {
      this.discard(pass);
    }
  }

  discard(pass: number): void {
    const open = this.#passes.get(pass);
    if (!open) throw new TrainerError('this pass has ended: backward or discard came before');
    this.#passes.delete(pass);
    open.scope.release();
  }

  /** Clips by global norm as torch does, steps AdamW, clears the gradient. */
  optimStep(adam: AdamOptions): { gradNorm: number; skipped: boolean } {
    const stores = this.#stores;
    if (stores.length === 0) throw new TrainerError('this trainer was opened with trainable: false');
    checkAdam(adam);
    const { kernels } = this;
    let squares = 0;
    for (const store of stores) squares += kernels.sumOfSquares({ x: store.gradients, count: store.count });
    const gradNorm = Math.sqrt(squares);
    const skipped = !Number.isFinite(gradNorm);
    if (!skipped) {
      this.#steps++;
      const gradientScale = adam.clipNorm > 0 ? Math.min(1, adam.clipNorm / (gradNorm + 1e-6)) : 1;
      for (const store of stores) this.#adamW(store, adam, gradientScale);
    }
    for (const store of stores) store.clearGradients();
    return { gradNorm, skipped };
  }

  /** Every weight under its Hugging Face name, adapters merged, in one shared buffer. */
  publish(): Map<string, { shape: readonly number[]; data: Float32Array }> {
    const specs = weightSpecs(this.config);
    const floats = specs.reduce((sum, { name }) => sum + this.#model.get(name).elements, 0);
    const shared = new SharedArrayBuffer(4 * floats);
    const tensors = new Map<string, { shape: readonly number[]; data: Float32Array }>();
    let offset = 0;
    for (const { name, shape } of specs) {
      const parameter = this.#model.get(name);
      tensors.set(name, { shape, data: new Float32Array(shared, 4 * offset, parameter.elements) });
      offset += parameter.elements;
    }
    const values = ({ name }: WeightSpec) => tensors.get(name)!.data;
    if (this.#model.isFrozen) readWeights(this.#options.model, this.config, values);
    else for (const spec of specs) values(spec).set(this.#model.value(this.#model.get(spec.name)));
    for (const spec of specs) this.#addAdapter(spec, values(spec));
    return tensors;
  }

  /** dL/dθ as accumulated, by name; for tests. */
  gradient(name: string): Float32Array {
    for (const store of this.#stores) if (store.has(name)) return store.gradient(store.get(name)).slice();
    throw new TrainerError(`${name} is not trained`);
  }

  value(name: string): Float32Array {
    const store = this.#model.has(name) ? this.#model : this.#extra;
    if (!store?.has(name)) throw new TrainerError(`no parameter ${name}`);
    return store.value(store.get(name));
  }

  /** After writing to `value(…)`: packed forms are stale. */
  valuesChanged(): void {
    this.#model.generation++;
    if (this.#extra) this.#extra.generation++;
  }

  /** A copy, since the parameters change with the next update. */
  adapter(): AdapterWeights {
    const { config, tensors } = adapterOf(this.#state);
    const copies = [...tensors].map(
      ([name, { shape, data }]) => [name, { shape, data: data.slice() }] as const,
    );
    return { config, tensors: new Map(copies) };
  }

  save(directory: string): void {
    saveTraining(directory, this.#state, this.#steps);
  }

  /** What `save` wrote. A folder without optimizer state (a plain model) begins a new one. */
  load(directory: string): void {
    this.#steps = loadTraining(directory, this.#state);
    this.valuesChanged();
    for (const store of this.#stores) store.clearGradients();
  }

  close(): void {
    for (const { scope } of this.#passes.values()) scope.release();
    this.#passes.clear();
    this.#decoder.close();
    this.#eyes?.encoder.close();
    this.#valueHead?.matrix.close();
    this.#arena.close();
    this.#extra?.close();
    this.#model.close();
  }

  get #state(): TrainingState {
    const { config, kernels } = this;
    return {
      config,
      kernels,
      options: this.#options,
      model: this.#model,
      extra: this.#extra,
      trained: this.#stores,
    };
  }

  get #stores(): readonly ParameterStore[] {
    return [this.#trained, this.#extra?.trained ? this.#extra : undefined].filter(
      (store) => store !== undefined,
    );
  }

  #checkFits(trainable: boolean): void {
    const { model, lora, weights = 'float32', recompute = false } = this.#options;
    const trained = trainable ? (lora ? 'adapter' : 'all') : 'none';
    const tokens = Math.min(1024, this.config.contextTokens);
    const held = trainerBytes(this.config, trained, { weights, rank: lora?.rank ?? 0 });
    const needed = held + tokens * activationBytes(this.config, recompute);
    const { maximumBytes, kind } = this.kernels;
    const available = kind === 'wasm' ? maximumBytes : Math.min(maximumBytes, freemem());
    const where = kind === 'wasm' ? 'the wasm heap' : 'this machine';
    const seconds = secondsPerThousandTokens(this.config, availableParallelism());
    checkMemory(model, { needed, available, where, seconds });
  }

  /** Checks what is asked, and makes room in the rows for their images. */
  #see(rows: readonly Row[], options: RunOptions): SeenRows {
    const { vision } = this.config;
    if (!this.#eyes || !vision || !rows.some(({ images }) => images?.length)) {
      this.#checkRun(rows, options);
      return { rows, images: new Map(), contract: (outputs) => outputs, spread: (gradients) => gradients };
    }
    const images = this.#eyes.patches.take(options.images ?? []);
    const expanded = expandRows(rows, vision.imageId, (blob) => {
      const grid = images.get(blob)?.grid;
      if (!grid) throw new TrainerError(`the image ${blob} of a row was not given`);
      return { width: grid.width / vision.merge, height: grid.height / vision.merge };
    });
    this.#checkRun(expanded.rows, options);
    return { ...expanded, images };
  }

  #checkRun(rows: readonly Row[], { temperature, outputs }: RunOptions): void {
    if (!(temperature > 0 && Number.isFinite(temperature))) {
      throw new TrainerError(`temperature is ${temperature}; a positive number is needed`);
    }
    if (outputs.includes('value') && !this.#valueHead) {
      throw new TrainerError('value was asked for, but this trainer was opened without valueHead');
    }
    checkRows(rows, this.config);
  }

  #run(
    { rows, images }: Pick<SeenRows, 'rows' | 'images'>,
    options: RunOptions,
    scope: ArenaScope,
    record: boolean,
  ): HeadPass | undefined {
    const packing = packRows(rows);
    if (packing.targetIds.length === 0 || options.outputs.length === 0) return undefined;
    const tape = new Tape(this.kernels, scope, record);
    const place = (values: Int32Array): Pointer => {
      const at = scope.take(values.length);
      this.kernels.i32(at, values.length).set(values);
      return at;
    };
    const checkpoint = options.checkpoint ?? (() => {});
    const recompute = this.#options.recompute ?? false;
    const isSeeing = this.#eyes && rows.some(({ pictures }) => pictures?.length);
    const tokens = {
      ...packedTokens(packing, place),
      ...(isSeeing &&
        addSight(tape, this.#eyes!.encoder, this.config, rows, packing, images, { recompute, checkpoint })),
    };
    const states = this.#decoder.forward(tape, tokens, recompute, checkpoint);
    checkpoint();
    const targets = {
      count: packing.targetIds.length,
      states: place(packing.targetStates),
      ids: place(packing.targetIds),
    };
    return runHead(tape, this.#decoder, this.#valueHead, states, targets, { ...options, recompute });
  }

  #adamW(store: ParameterStore, adam: AdamOptions, gradientScale: number): void {
    const { learningRate, beta1, beta2, epsilon } = adam;
    const step = this.#steps;
    const group = (from: number, to: number, weightDecay: number) => {
      if (to === from) return;
      this.kernels.adamW({
        parameter: store.values + 4 * from,
        gradient: store.gradients + 4 * from,
        moment1: store.moment1 + 4 * from,
        moment2: store.moment2 + 4 * from,
        count: to - from,
        learningRate,
        beta1,
        beta2,
        epsilon,
        weightDecay,
        step,
        gradientScale,
      });
    };
    const decayed = this.#options.decay === 'matrices' ? store.matrixCount : store.count;
    group(0, decayed, adam.weightDecay);
    group(decayed, store.count, 0);
    store.generation++;
  }

  /** W becomes W + scale · B·A where the layer has an adapter. */
  #addAdapter({ name, shape }: WeightSpec, target: Float32Array): void {
    const { lora } = this.#options;
    const module = name.replace(/\.weight$/, '');
    if (!lora || !this.#extra?.has(`${module}.lora_A.weight`)) return;
    const { kernels } = this;
    const a = this.#extra.get(`${module}.lora_A.weight`);
    const b = this.#extra.get(`${module}.lora_B.weight`);
    const [out, input] = shape as readonly [number, number];
    const { rank } = lora;
    const scope = new ArenaScope(this.#arena);
    try {
      const count = target.length;
      const merged = scope.take(count);
      const values = scope.take(count);
      const packed = scope.take(kernels.packedBytes(input, rank) / 4);
      kernels.pack({
        weight: this.#extra.values + 4 * a.offset,
        n: rank,
        k: input,
        packed,
        transposed: true,
      });
      const x = this.#extra.values + 4 * b.offset;
      kernels.matmul({ x, packed, y: merged, m: out, n: input, k: rank });
      kernels.scale({ alpha: lora.alpha / rank, x: merged, count });
      kernels.f32(values, count).set(target);
      kernels.add({ a: merged, b: values, out: merged, count });
      target.set(kernels.f32(merged, count));
    } finally {
      scope.release();
    }
  }
}

function packedTokens(packing: Packing, place: (values: Int32Array) => Pointer) {
  return {
    count: packing.ids.length,
    ids: place(packing.ids),
    positions: place(packing.positions),
    rows: {
      rows: packing.rowStart.length,
      rowStart: place(packing.rowStart),
      rowLength: place(packing.rowLength),
      prefixStart: place(packing.prefixStart),
      prefixLength: place(packing.prefixLength),
    },
  };
}

function checkAdam(adam: AdamOptions): void {
  const { learningRate, beta1, beta2, epsilon, weightDecay, clipNorm } = adam;
  const right = (name: string, value: number, ok: boolean) => {
    if (!ok || !Number.isFinite(value))
      throw new TrainerError(`optimStep: ${name} is ${value}, out of its range`);
  };
  right('learningRate', learningRate, learningRate >= 0);
  right('beta1', beta1, beta1 >= 0 && beta1 < 1);
  right('beta2', beta2, beta2 >= 0 && beta2 < 1);
  right('epsilon', epsilon, epsilon > 0);
  right('weightDecay', weightDecay, weightDecay >= 0);
  right('clipNorm', clipNorm, clipNorm >= 0);
}

/** From states to tokens: the output layer, penalties, sampling, and scoring of given tokens. */
import type { Kernels, Pointer } from '../kernels/kernels.ts';
import type { ModelConfig } from '../model/config.ts';
import type { PackedWeights } from './packed-weights.ts';
import type { RunningSequence } from './sequence.ts';

/** Most bytes of logits held at once; rows are computed in as many parts as that takes. */
const LOGITS_BYTES = 32 << 20;

export class Head {
  /** Most rows of one `sample` call. */
  readonly rows: number;
  /** Results of the last `sample`. */
  readonly ids: Int32Array;
  readonly logprobs: Float32Array;
  readonly #kernels: Kernels;
  readonly #config: ModelConfig;
  readonly #partRows: number;
  readonly #owned: Pointer[] = [];
  readonly #rowIndex: { at: Pointer; view: Int32Array };
  readonly #states: Pointer;
  readonly #logits: Pointer;
  #untouched: Pointer = 0;
  readonly #temperature: { at: Pointer; view: Float32Array };
  readonly #topK: { at: Pointer; view: Int32Array };
  readonly #topP: { at: Pointer; view: Float32Array };
  readonly #minP: { at: Pointer; view: Float32Array };
  readonly #uniform: { at: Pointer; view: Float64Array };
  readonly #targets: { at: Pointer; view: Int32Array };
  readonly #logprob: { at: Pointer; view: Float32Array };

  constructor(kernels: Kernels, config: ModelConfig, rows: number) {
    this.#kernels = kernels;
    this.#config = config;
    this.rows = rows;
    this.ids = new Int32Array(rows);
    this.logprobs = new Float32Array(rows);
    const part = Math.max(1, Math.min(rows, Math.floor(LOGITS_BYTES / (config.vocabulary * 4))));
    this.#partRows = part;
    const own = (bytes: number) => {
      const pointer = kernels.alloc(bytes);
      this.#owned.push(pointer);
      return pointer;
    };
    const floats = () => {
      const at = own(part * 4);
      return { at, view: kernels.f32(at, part) };
    };
    const integers = () => {
      const at = own(part * 4);
      return { at, view: kernels.i32(at, part) };
    };
    this.#rowIndex = integers();
    this.#states = own(part * config.hidden * 4);
    this.#logits = own(part * config.vocabulary * 4);
    this.#temperature = floats();
    this.#topK = integers();
    this.#topP = floats();
    this.#minP = floats();
    const uniform = own(part * 8);
    this.#uniform = { at: uniform, view: kernels.f64(uniform, part) };
    this.#targets = integers();
    this.#logprob = floats();
  }

  /**
   * Samples a token of each sequence from the state in its row, for one of the `places` of its reply (from 0). Results in `ids`
   * and `logprobs`.
   */
  sample(
    weights: PackedWeights,
    states: Pointer,
    stateRows: number,
    rows: readonly number[],
    sequences: readonly RunningSequence[],
    places: readonly number[],
  ): void {
    for (let from = 0; from < rows.length; from += this.#partRows) {
      const count = Math.min(this.#partRows, rows.length - from);
      this.#computeLogits(weights, states, stateRows, rows, from, count);
      let penalized = false;
      for (let index = 0; index < count; index++) {
        const sequence = sequences[from + index]!;
        const { temperature, topK, topP, minP } = sequence.sampling;
        this.#temperature.view[index] = temperature;
        this.#topK.view[index] = topK;
        this.#topP.view[index] = topP;
        this.#minP.view[index] = minP;
        this.#uniform.view[index] = randomNumber(sequence.seed, places[from + index]!);
        penalized ||= sequence.occurrences !== undefined;
      }
      const raw = penalized ? this.#penalize(sequences, from, count) : this.#logits;
      const { vocabulary } = this.#config;
      this.#kernels.sample({
        logits: this.#logits,
        rows: count,
        vocabulary,
        temperature: this.#temperature.at,
        topK: this.#topK.at,
        topP: this.#topP.at,
        minP: this.#minP.at,
        uniform: this.#uniform.at,
        ids: this.#targets.at,
        logprob: this.#logprob.at,
      });
      // Penalties steer the choice; the reported log-prob is the model's own.
      if (penalized) this.#scoreLogits(raw, count);
      this.ids.set(this.#targets.view.subarray(0, count), from);
      this.logprobs.set(this.#logprob.view.subarray(0, count), from);
    }
  }

  /** Log-probs of given tokens from the states that predict them, at a temperature (0 counts as 1). */
  score(
    weights: PackedWeights,
    states: Pointer,
    stateRows: number,
    rows: readonly number[],
    targets: Int32Array,
    temperature: number,
    out: Float32Array,
  ): void {
    for (let from = 0; from < rows.length; from += this.#partRows) {
      const count = Math.min(this.#partRows, rows.length - from);
      this.#computeLogits(weights, states, stateRows, rows, from, count);
      this.#temperature.view.fill(temperature, 0, count);
      this.#targets.view.set(targets.subarray(from, from + count));
      this.#scoreLogits(this.#logits, count);
      out.set(this.#logprob.view.subarray(0, count), from);
    }
  }

  #scoreLogits(logits: Pointer, rows: number): void {
    this.#kernels.logprobs({
      logits,
      rows,
      vocabulary: this.#config.vocabulary,
      targets: this.#targets.at,
      temperature: this.#temperature.at,
      logprob: this.#logprob.at,
    });
  }

  #computeLogits(
    weights: PackedWeights,
    states: Pointer,
    stateRows: number,
    rows: readonly number[],
    from: number,
    count: number,
  ): void {
    const { hidden, vocabulary, logitCap: cap } = this.#config;
    const first = rows[from]!;
    let x = states + first * hidden * 4;
    if (rows[from + count - 1]! - first !== count - 1) {
      for (let index = 0; index < count; index++) this.#rowIndex.view[index] = rows[from + index]!;
      x = this.#states;
      this.#kernels.gather({
        table: states,
        rows: stateRows,
        width: hidden,
        ids: this.#rowIndex.at,
        count,
        out: x,
      });
    }
    const { head: packed, products } = weights;
    products.multiply({ x, packed, y: this.#logits, m: count, n: vocabulary, k: hidden });
    if (cap) this.#kernels.softCap({ x: this.#logits, cap, count: count * vocabulary });
  }

  /** Penalizes the logits in place and returns the address of a copy of the originals. */
  #penalize(sequences: readonly RunningSequence[], from: number, rows: number): Pointer {
    const kernels = this.#kernels;
    const { vocabulary } = this.#config;
    if (this.#untouched === 0) {
      this.#untouched = kernels.alloc(this.#partRows * vocabulary * 4);
      this.#owned.push(this.#untouched);
    }
    kernels.copy({ from: this.#logits, to: this.#untouched, count: rows * vocabulary });
    let entries = 0;
    for (let row = 0; row < rows; row++) entries += sequences[from + row]!.occurrences?.size ?? 0;
    const base = kernels.alloc((rows * 4 + 1 + entries * 2) * 4);
    try {
      const integers = kernels.i32(base, rows + 1 + entries * 2);
      const settingsAt = base + integers.length * 4;
      const settings = kernels.f32(settingsAt, rows * 3);
      let entry = 0;
      for (let row = 0; row < rows; row++) {
        const { occurrences, sampling } = sequences[from + row]!;
        integers[row] = entry;
        settings[row] = sampling.repetitionPenalty;
        settings[rows + row] = sampling.presencePenalty;
        settings[2 * rows + row] = sampling.frequencyPenalty;
        for (const [id, count] of occurrences ?? []) {
          integers[rows + 1 + entry] = id;
          integers[rows + 1 + entries + entry] = count;
          entry++;
        }
      }
      integers[rows] = entry;
      kernels.penalize({
        logits: this.#logits,
        rows,
        vocabulary,
        offsets: base,
        ids: base + (rows + 1) * 4,
        counts: base + (rows + 1 + entries) * 4,
        entries,
        repetition: settingsAt,
        presence: settingsAt + rows * 4,
        frequency: settingsAt + rows * 8,
      });
    } finally {
      kernels.free(base);
    }
    return this.#untouched;
  }

  free(): void {
    for (const pointer of this.#owned) this.#kernels.free(pointer);
  }
}

/** The random number in [0, 1) of a reply's token: a function of the seed and the token's place alone. */
export function randomNumber(seed: number, token: number): number {
  return mix((seed + mix((token + 0x9e3779b9) | 0)) | 0) / 0x100000000;
}

/** The finalizer of MurmurHash3. */
function mix(value: number): number {
  let hash = value;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

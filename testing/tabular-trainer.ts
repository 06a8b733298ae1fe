import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../src/lib/random.ts';
import type { AdamOptions, Gradients, Output, Outputs, Row, Trainer } from '../src/training/trainer.ts';

/**
 * A policy small enough to check by hand: one table of logits, by the token before (a bigram model), and one value
 * per token before. Exact in float64, every output, real Adam; `tokensForwarded` counts what it was asked.
 */
export interface TabularTrainer extends Trainer {
  /** [vocabulary × vocabulary]; row: the token before. Writable, for tests that break it. */
  readonly logits: Float64Array;
  readonly values: Float64Array;
  /** Gradient gathered since the last step: of the logits, then of the values. */
  readonly gradient: Float64Array;
  readonly tokensForwarded: number;
  readonly steps: number;
  probabilities(previous: number, temperature?: number): Float64Array;
  sample(
    prompt: readonly number[],
    count: number,
    random: Random,
  ): { ids: Int32Array; logprobs: Float32Array };
}

/** What `save` writes. */
interface TabularState {
  readonly parameters: readonly number[];
  readonly first: readonly number[];
  readonly second: readonly number[];
  readonly steps: number;
}

/** A trainer whose model is a table of logits, computed in float64: small enough to check by hand. */
export function tabularTrainer(options: {
  readonly vocabulary: number;
  readonly can?: Trainer['can'];
  readonly logits?: ArrayLike<number>;
}): TabularTrainer {
  const { vocabulary } = options;
  const parameters = new Float64Array(vocabulary * vocabulary + vocabulary);
  if (options.logits) parameters.set(Array.from(options.logits));
  const logits = parameters.subarray(0, vocabulary * vocabulary);
  const values = parameters.subarray(vocabulary * vocabulary);
  const gradient = new Float64Array(parameters.length);
  const moments = { first: new Float64Array(parameters.length), second: new Float64Array(parameters.length) };
  let [steps, tokensForwarded] = [0, 0];

  const probabilities = (previous: number, temperature = 1) => {
    const row = logits.slice(previous * vocabulary, (previous + 1) * vocabulary).map((z) => z / temperature);
    const top = row.reduce((a, b) => Math.max(a, b));
    const exponentials = row.map((z) => Math.exp(z - top));
    const sum = exponentials.reduce((a, b) => a + b, 0);
    return exponentials.map((e) => e / sum);
  };

  const compute = (rows: readonly Row[], outputs: readonly Output[], temperature: number): Outputs => {
    checkPrefixes(rows);
    const lists: { [K in Output]?: Float32Array[] } = {};
    for (const output of outputs) lists[output] = rows.map(({ ids }) => new Float32Array(ids.length));
    rows.forEach(({ ids, targets, prefix }, r) => {
      tokensForwarded += ids.length - (prefix?.length ?? 0);
      for (let at = 1; at < ids.length; at++) {
        if (!targets[at]) continue;
        const p = probabilities(ids[at - 1]!, temperature);
        if (lists.logprob) lists.logprob[r]![at] = Math.log(p[ids[at]!]!);
        if (lists.entropy) lists.entropy[r]![at] = entropyOf(p);
        if (lists.sumSquares) lists.sumSquares[r]![at] = sumOfSquares(p);
        if (lists.value) lists.value[r]![at] = values[ids[at - 1]!]!;
      }
    });
    return lists;
  };

  return {
    can: options.can ?? new Set(['entropy', 'value', 'sumSquares', 'temperature', 'prefix'] as const),
    publishes: 'memory',
    logits,
    values,
    gradient,
    get tokensForwarded() {
      return tokensForwarded;
    },
    get steps() {
      return steps;
    },
    probabilities,
    sample(prompt, count, random) {
      const ids = [...prompt];
      const logprobs: number[] = prompt.map(() => 0);
      for (let i = 0; i < count; i++) {
        const p = probabilities(ids.at(-1)!);
        let [threshold, choice] = [random.next(), 0];
        while (choice < vocabulary - 1 && threshold >= p[choice]!) threshold -= p[choice++]!;
        ids.push(choice);
        logprobs.push(Math.log(p[choice]!));
      }
      return { ids: Int32Array.from(ids), logprobs: Float32Array.from(logprobs) };
    },
    async score(rows, { outputs, temperature, signal }) {
      signal?.throwIfAborted();
      return compute(rows, outputs, temperature);
    },
    async forward(rows, { outputs, temperature, signal }) {
      signal?.throwIfAborted();
      return {
        outputs: compute(rows, outputs, temperature),
        async backward(by: Gradients) {
          rows.forEach(({ ids, targets }, r) => {
            for (let at = 1; at < ids.length; at++) {
              if (targets[at])
                addGradient(ids[at - 1]!, ids[at]!, temperature, (output) => by[output]?.[r]?.[at] ?? 0);
            }
          });
        },
        async discard() {},
      };
    },
    async optimStep(adam) {
      const gradNorm = Math.sqrt(sumOfSquares(gradient));
      const skipped = !Number.isFinite(gradNorm);
      if (!skipped) applyAdam(adam, gradNorm);
      gradient.fill(0);
      return { gradNorm, skipped };
    },
    async publish(version) {
      return { kind: 'memory', version, tensors: new Map() };
    },
    async save(directory) {
      mkdirSync(directory, { recursive: true });
      const [first, second] = [[...moments.first], [...moments.second]];
      const state: TabularState = { parameters: [...parameters], first, second, steps };
      writeFileSync(join(directory, 'tabular.json'), JSON.stringify(state));
    },
    async load(directory) {
      const state = JSON.parse(readFileSync(join(directory, 'tabular.json'), 'utf8')) as TabularState;
      parameters.set(state.parameters);
      moments.first.set(state.first);
      moments.second.set(state.second);
      gradient.fill(0);
      steps = state.steps;
    },
    async close() {},
  };

  function addGradient(
    previous: number,
    id: number,
    temperature: number,
    by: (output: Output) => number,
  ): void {
    const p = probabilities(previous, temperature);
    const [entropy, squares] = [entropyOf(p), sumOfSquares(p)];
    for (let v = 0; v < vocabulary; v++) {
      const q = p[v]!;
      gradient[previous * vocabulary + v]! +=
        (by('logprob') * ((v === id ? 1 : 0) - q) -
          by('entropy') * (q > 0 ? q * (Math.log(q) + entropy) : 0) +
          by('sumSquares') * 2 * q * (q - squares)) /
        temperature;
    }
    gradient[vocabulary * vocabulary + previous]! += by('value');
  }

  function applyAdam(adam: AdamOptions, norm: number): void {
    steps++;
    const scale = adam.clipNorm > 0 && norm > adam.clipNorm ? adam.clipNorm / norm : 1;
    for (let i = 0; i < parameters.length; i++) {
      const g = gradient[i]! * scale;
      moments.first[i] = adam.beta1 * moments.first[i]! + (1 - adam.beta1) * g;
      moments.second[i] = adam.beta2 * moments.second[i]! + (1 - adam.beta2) * g * g;
      const first = moments.first[i]! / (1 - adam.beta1 ** steps);
      const second = moments.second[i]! / (1 - adam.beta2 ** steps);
      parameters[i]! -=
        adam.learningRate * (first / (Math.sqrt(second) + adam.epsilon) + adam.weightDecay * parameters[i]!);
    }
  }
}

const entropyOf = (p: Float64Array) => -p.reduce((sum, q) => sum + (q > 0 ? q * Math.log(q) : 0), 0);
const sumOfSquares = (list: Float64Array) => list.reduce((sum, x) => sum + x * x, 0);

function checkPrefixes(rows: readonly Row[]): void {
  rows.forEach(({ ids, targets, prefix }, r) => {
    if (!prefix) return;
    const root = rows[prefix.row];
    const start = (list: Int32Array) => String(list.slice(0, prefix.length));
    if (!root || prefix.row >= r || start(root.ids) !== start(ids)) {
      throw new Error(`row ${r} does not begin with the first ${prefix.length} tokens of row ${prefix.row}`);
    }
    if (targets.slice(0, prefix.length).includes(1))
      throw new Error(`row ${r} has a target in its shared prefix`);
  });
}

/**
 * From states to numbers per target: log-prob, entropy, Σπ², value, and back. Logits are computed for a chunk of targets
 * at a time. Some chunks are kept for the backward, the others it computes again, so that what is held does not grow with
 * targets × vocabulary.
 */
import type { Gradients, Output } from '../../training/trainer.ts';
import type { Pointer } from '../kernels/kernels.ts';
import type { Decoder } from '../model/decoder.ts';
import type { PackedMatrix, Parameter } from '../model/parameters.ts';
import type { Activation, Tape } from './tape.ts';

const LOGITS_PER_CHUNK = 1 << 21;
/** The weights of a large vocabulary come from memory once for each chunk. */
const FEWEST_CHUNK_ROWS = 96;
/** 128 MB: half of what 1024 targets of a vocabulary of 49,152 make. */
const KEPT_LOGITS = 1 << 25;

export interface ValueHead {
  readonly matrix: PackedMatrix;
  readonly bias: Parameter;
}

/** Targets in the heap. */
export interface PackedTargets {
  readonly count: number;
  readonly states: Pointer;
  readonly ids: Pointer;
}

/** One array per asked output, of the number of targets. */
export type TargetOutputs = { readonly [K in Output]?: Float32Array };

export interface HeadPass {
  readonly outputs: TargetOutputs;
  backward(gradients: { readonly [K in keyof Gradients]?: Float32Array }): void;
}

export function runHead(
  tape: Tape,
  decoder: Decoder,
  valueHead: ValueHead | undefined,
  states: Activation,
  targets: PackedTargets,
  options: { readonly temperature: number; readonly outputs: readonly Output[]; readonly recompute: boolean },
): HeadPass {
  const { kernels } = tape;
  const { count } = targets;
  const { head, config } = decoder;
  const { vocabulary, hidden, normEpsilon, normOffset, logitCap: cap } = config;
  const selected = tape.select(states, targets.states, count);
  const normed = tape.norm(selected, decoder.finalNorm, normEpsilon, normOffset);
  const asked = new Set(options.outputs);
  const usesLogits = options.outputs.some((output) => output !== 'value');
  const kept = new Map<Output | 'logsumexp', Pointer>(
    [...asked, ...(usesLogits ? (['logsumexp'] as const) : [])].map((name) => [name, tape.take(count)]),
  );
  const at = (name: Output | 'logsumexp', row: number) => {
    const pointer = kept.get(name);
    return pointer === undefined ? undefined : pointer + 4 * row;
  };
  const chunkRows = Math.min(count, Math.max(FEWEST_CHUNK_ROWS, Math.floor(LOGITS_PER_CHUNK / vocabulary)));

  // Logits of the chunks that begin at these rows.
  const keptLogits = new Map<number, Pointer>();
  const keeps = tape.recording && !options.recompute && usesLogits;
  const mostKept = keeps ? Math.floor(KEPT_LOGITS / (chunkRows * vocabulary)) : 0;

  const compute = (from: number, rows: number, logits: Pointer) => {
    const x = normed.at + 4 * from * hidden;
    const { half } = head;
    kernels.matmul({ x, packed: head.forward(), half, y: logits, m: rows, n: vocabulary, k: hidden });
    if (cap) kernels.softCap({ x: logits, cap, count: rows * vocabulary });
  };
  const eachChunk = (visit: (from: number, rows: number, logits: Pointer) => void, keep: boolean) => {
    let logits = 0;
    for (let from = 0; from < count; from += chunkRows) {
      const rows = Math.min(chunkRows, count - from);
      const kept = keptLogits.get(from);
      if (kept === undefined) {
        logits ||= tape.take(chunkRows * vocabulary);
        compute(from, rows, logits);
      }
      visit(from, rows, kept ?? logits);
      if (kept !== undefined) {
        keptLogits.delete(from);
        tape.giveBack(kept);
      } else if (keep && keptLogits.size < mostKept) {
        keptLogits.set(from, logits);
        logits = 0;
      }
    }
    if (logits) tape.giveBack(logits);
  };

  if (usesLogits) {
    eachChunk(
      (from, rows, logits) =>
        kernels.lossForward({
          logits,
          rows,
          vocabulary,
          targets: targets.ids + 4 * from,
          temperature: options.temperature,
          logprob: at('logprob', from),
          logsumexp: at('logsumexp', from),
          entropy: at('entropy', from),
          sumSquares: at('sumSquares', from),
        }),
      keeps,
    );
  }
  if (valueHead && asked.has('value')) {
    const bias = valueHead.bias.store.values + 4 * valueHead.bias.offset;
    const packed = valueHead.matrix.forward();
    kernels.matmul({ x: normed.at, packed, y: kept.get('value')!, m: count, n: 1, k: hidden, bias });
  }

  return {
    outputs: Object.fromEntries(
      options.outputs.map((name) => [name, kernels.f32(kept.get(name)!, count).slice()]),
    ),
    backward(gradients) {
      const given = new Map<Output, Pointer>();
      for (const [name, values] of Object.entries(gradients)) {
        const pointer = tape.take(count);
        kernels.f32(pointer, count).set(values);
        given.set(name as Output, pointer);
      }
      const dnormed = tape.take(count * hidden);
      const flowsFromLogits = given.size > (given.has('value') ? 1 : 0);
      if (flowsFromLogits) {
        const part = (name: Output, row: number) => {
          const pointer = given.get(name);
          return pointer === undefined ? undefined : pointer + 4 * row;
        };
        // The slope of the cap is read from the capped logits, in whose place their gradient comes.
        const capped = cap ? tape.take(chunkRows * vocabulary) : 0;
        eachChunk((from, rows, logits) => {
          const size = rows * vocabulary;
          if (cap) kernels.copy({ from: logits, to: capped, count: size });
          kernels.lossBackward({
            logits,
            rows,
            vocabulary,
            targets: targets.ids + 4 * from,
            temperature: options.temperature,
            logsumexp: at('logsumexp', from)!,
            entropy: at('entropy', from),
            sumSquares: at('sumSquares', from),
            dLogprob: part('logprob', from),
            dEntropy: part('entropy', from),
            dSumSquares: part('sumSquares', from),
          });
          if (cap) kernels.softCapBackward({ y: capped, dy: logits, cap, count: size });
          const x = normed.at + 4 * from * hidden;
          const { half } = head;
          if (head.trained) {
            const dw = head.gradient;
            kernels.weightGradient({ dy: logits, x, dw, m: rows, n: vocabulary, k: hidden, half });
          }
          const y = dnormed + 4 * from * hidden;
          const packed = head.transposed();
          kernels.matmul({ x: logits, packed, half, y, m: rows, n: hidden, k: vocabulary });
        }, false);
        if (cap) tape.giveBack(capped);
      } else kernels.fill({ x: dnormed, value: 0, count: count * hidden });
      const dvalue = given.get('value');
      if (dvalue !== undefined && valueHead) {
        const { matrix, bias } = valueHead;
        if (matrix.trained) {
          const db = bias.store.gradients + 4 * bias.offset;
          kernels.weightGradient({
            dy: dvalue,
            x: normed.at,
            dw: matrix.gradient,
            m: count,
            n: 1,
            k: hidden,
          });
          kernels.biasGradient({ dy: dvalue, db, m: count, n: 1 });
        }
        const packed = matrix.transposed();
        kernels.matmul({ x: dvalue, packed, y: dnormed, m: count, n: hidden, k: 1, accumulate: true });
      }
      normed.gradient = dnormed;
      tape.backward();
    },
  };
}

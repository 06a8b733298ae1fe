import fc from 'fast-check';
import { expect, test } from 'vitest';
import { expectClose, numericalGradient, onEveryBuild, randomFloats } from './testing/tensors.ts';

function softmax(logits: readonly number[], temperature: number): number[] {
  const most = Math.max(...logits) / temperature;
  const weights = logits.map((logit) => Math.exp(logit / temperature - most));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}
function outputsOf(logits: readonly number[], target: number, temperature: number) {
  const pi = softmax(logits, temperature);
  const most = Math.max(...logits) / temperature;
  return {
    logprob: Math.log(pi[target]!),
    logsumexp: most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit / temperature - most), 0)),
    entropy: -pi.reduce((sum, p) => sum + (p > 0 ? p * Math.log(p) : 0), 0),
    sumSquares: pi.reduce((sum, p) => sum + p * p, 0),
  };
}

interface Choice {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  uniform: number;
}

/** The documented rule, step by step, in double. */
function referenceSample(logits: readonly number[], choice: Choice): number {
  const ranked = logits.map((_, id) => id).sort((a, b) => logits[b]! - logits[a]! || a - b);
  if (choice.temperature === 0) return ranked[0]!;
  const pi = softmax(logits, choice.temperature);
  let kept = choice.topK > 0 ? ranked.slice(0, choice.topK) : ranked;
  const mass = (ids: readonly number[]) => ids.reduce((sum, id) => sum + pi[id]!, 0);
  if (choice.topP < 1) {
    const total = mass(kept);
    let count = 1;
    while (count < kept.length && mass(kept.slice(0, count)) < choice.topP * total) count++;
    kept = kept.slice(0, count);
  }
  kept = kept.filter((id) => id === ranked[0] || pi[id]! >= choice.minP * pi[ranked[0]!]!);
  kept.sort((a, b) => a - b);
  let passed = 0;
  const total = mass(kept);
  for (const id of kept) {
    passed += pi[id]!;
    if (passed > choice.uniform * total) return id;
  }
  return kept.at(-1)!;
}

await onEveryBuild((kernels, tensors) => {
  test('lossForward gives log-prob, logsumexp, entropy and Σπ² at a temperature', () => {
    fc.assert(
      fc.property(
        fc.nat(9),
        fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(1024, 3001)),
        fc.constantFrom(0.3, 1, 1.7),
        (rows, vocabulary, temperature) => {
          const logits = randomFloats(rows * vocabulary, 1, 12);
          if (rows && vocabulary > 2) logits[1] = Number.NEGATIVE_INFINITY;
          const targets = Array.from({ length: rows }, (_, row) => (row * 17) % vocabulary);
          if (targets[0] === 1) targets[0] = 0;
          const out = {
            logprob: tensors.blank(rows),
            logsumexp: tensors.blank(rows),
            entropy: tensors.blank(rows),
            sumSquares: tensors.blank(rows),
          };
          kernels.lossForward({
            logits: tensors.floats(logits),
            rows,
            vocabulary,
            targets: tensors.ints(targets),
            temperature,
            ...out,
          });
          const expected = targets.map((target, row) =>
            outputsOf(logits.slice(row * vocabulary, (row + 1) * vocabulary), target, temperature),
          );
          for (const name of ['logprob', 'logsumexp', 'entropy', 'sumSquares'] as const) {
            expectClose(
              tensors.read(out[name], rows),
              expected.map((row) => row[name]),
              3e-6,
            );
          }
          tensors.free();
        },
      ),
      { numRuns: 40, seed: 1 },
    );
  });

  test('lossBackward is the gradient of any mixture of log-prob, entropy and Σπ²', () => {
    for (const [vocabulary, temperature] of [
      [1, 1],
      [7, 1],
      [19, 0.6],
      [33, 2],
    ] as const) {
      const rows = 3;
      const logits = randomFloats(rows * vocabulary, 2, 3);
      const targets = [0, vocabulary - 1, Math.floor(vocabulary / 2)];
      const [a, b, c] = [randomFloats(rows, 3), randomFloats(rows, 4), randomFloats(rows, 5)];
      const call = {
        rows,
        vocabulary,
        temperature,
        logits: tensors.floats(logits),
        targets: tensors.ints(targets),
      };
      const saved = {
        logsumexp: tensors.blank(rows),
        entropy: tensors.blank(rows),
        sumSquares: tensors.blank(rows),
      };
      kernels.lossForward({ ...call, ...saved });
      kernels.lossBackward({
        ...call,
        ...saved,
        dLogprob: tensors.floats(a),
        dEntropy: tensors.floats(b),
        dSumSquares: tensors.floats(c),
      });
      const loss = () =>
        targets.reduce((sum, target, row) => {
          const out = outputsOf(logits.slice(row * vocabulary, (row + 1) * vocabulary), target, temperature);
          return sum + a[row]! * out.logprob + b[row]! * out.entropy + c[row]! * out.sumSquares;
        }, 0);
      expectClose(tensors.read(call.logits, logits.length), numericalGradient(loss, logits), 1e-5);
      tensors.free();
    }
  });

  test('penalties follow their formula', () => {
    const logits = [2, -1, 0.5, 3, -2, 4];
    const at = tensors.floats(logits);
    kernels.penalize({
      logits: at,
      rows: 2,
      vocabulary: 3,
      entries: 3,
      offsets: tensors.ints([0, 2, 3]),
      ids: tensors.ints([0, 1, 2]),
      counts: tensors.ints([3, 0, 1]),
      repetition: tensors.floats([2, 1]),
      presence: tensors.floats([0.5, 0.25]),
      frequency: tensors.floats([0.125, 1]),
    });
    expect(tensors.read(at, 6)).toEqual([2 / 2 - 0.5 - 3 * 0.125, -1 * 2, 0.5, 3, -2, 4 - 0.25 - 1]);
    tensors.free();
  });

  function sample(rows: readonly Choice[], logits: readonly number[]) {
    const column = (name: keyof Choice) => rows.map((row) => row[name]);
    const vocabulary = logits.length / rows.length;
    const [ids, logprob] = [tensors.ints(column('topK')), tensors.blank(rows.length)];
    const call = {
      logits: tensors.floats(logits),
      rows: rows.length,
      vocabulary,
      temperature: tensors.floats(column('temperature')),
      logprob,
    };
    kernels.sample({
      ...call,
      ids,
      topK: tensors.ints(column('topK')),
      topP: tensors.floats(column('topP')),
      minP: tensors.floats(column('minP')),
      uniform: tensors.doubles(column('uniform')),
    });
    const chosen = [...kernels.i32(ids, rows.length)];
    const scored = tensors.blank(rows.length);
    kernels.logprobs({ ...call, logprob: scored, targets: ids });
    expect(tensors.bits(scored, rows.length).equals(tensors.bits(logprob, rows.length))).toBe(true);
    return { chosen, logprobs: tensors.read(logprob, rows.length) };
  }

  test('sampling follows the documented rule and reports the log-prob before truncation', () => {
    const choices = fc.record({
      temperature: fc.constantFrom(0, 0.5, 1, 1.5),
      topK: fc.constantFrom(0, 1, 3, 10, 5000),
      topP: fc.constantFrom(0.1, 0.5, 0.875, 1),
      minP: fc.constantFrom(0, 0.0625, 0.5, 1),
      uniform: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    });
    let compared = 0;
    fc.assert(
      fc.property(
        fc.array(choices, { minLength: 1, maxLength: 6 }),
        fc.constantFrom(1, 2, 17, 300, 2500),
        fc.nat(),
        (rows, vocabulary, seed) => {
          // Rounded, so that there are ties.
          const logits = randomFloats(rows.length * vocabulary, seed, 9).map(
            (logit) => Math.round(logit * 4) / 4,
          );
          const { chosen, logprobs } = sample(rows, logits);
          for (const [row, choice] of rows.entries()) {
            const own = logits.slice(row * vocabulary, (row + 1) * vocabulary);
            const id = chosen[row]!;
            const expected = Math.log(softmax(own, choice.temperature || 1)[id]!);
            expect(Math.abs(logprobs[row]! - expected)).toBeLessThan(1e-5 * (1 + Math.abs(expected)));
            // A uniform number within rounding of a boundary may fall on either side of it.
            const near = [-1e-6, 0, 1e-6].map((d) =>
              referenceSample(own, {
                ...choice,
                uniform: Math.min(1 - 1e-9, Math.max(0, choice.uniform + d)),
                topP: choice.topP,
              }),
            );
            if (choice.topP < 1) {
              for (const d of [-1e-6, 1e-6])
                near.push(referenceSample(own, { ...choice, topP: choice.topP + d }));
            }
            expect(near).toContain(id);
            compared++;
          }
          tensors.free();
        },
      ),
      { numRuns: 80, seed: 3 },
    );
    expect(compared).toBeGreaterThan(200);
  });

  test('samples are distributed as the softmax', () => {
    const logits = [0.5, -1, 2, 0, 1.25];
    const pi = softmax(logits, 0.8);
    const draws = 20_000;
    const counts = [0, 0, 0, 0, 0];
    const rows = Array.from({ length: draws }, (_, i) => ({
      temperature: 0.8,
      topK: 0,
      topP: 1,
      minP: 0,
      uniform: ((i * 7919) % draws) / draws,
    }));
    for (const id of sample(
      rows,
      rows.flatMap(() => logits),
    ).chosen)
      counts[id]!++;
    for (const [id, p] of pi.entries()) expect(Math.abs(counts[id]! / draws - p)).toBeLessThan(1e-3);
    tensors.free();
  });

  test('a row gives the same choice and bits alone and among others; ties go to the lower id', () => {
    const vocabulary = 700;
    const rows = Array.from({ length: 24 }, (_, row) => ({
      temperature: 0.5 + row / 10,
      topK: row % 3 ? 0 : 40,
      topP: row % 2 ? 0.875 : 1,
      minP: 0,
      uniform: row / 24,
    }));
    const logits = randomFloats(rows.length * vocabulary, 6, 8);
    const together = sample(rows, logits);
    for (const [row, choice] of rows.entries()) {
      const alone = sample([choice], logits.slice(row * vocabulary, (row + 1) * vocabulary));
      expect([alone.chosen[0], alone.logprobs[0]]).toEqual([together.chosen[row], together.logprobs[row]]);
    }
    const tie: Choice = { temperature: 0, topK: 0, topP: 1, minP: 0, uniform: 0.9 };
    expect(sample([tie], [1, 3, 3, 2]).chosen).toEqual([1]);
    expect(sample([{ ...tie, temperature: 1, topK: 1 }], [1, 3, 3, 2]).chosen).toEqual([1]);
    tensors.free();
  });

  test('a row of logits that is not finite is refused by its number', () => {
    const plain: Choice = { temperature: 1, topK: 0, topP: 1, minP: 0, uniform: 0.5 };
    expect(() => sample([plain, plain], [1, 2, Number.NaN, 1])).toThrow(/row 1 of logits/);
    expect(() => sample([plain, plain], [-Infinity, -Infinity, 1, 1])).toThrow(/row 0 of logits/);
    expect(sample([plain], [-Infinity, 1]).chosen).toEqual([1]);
    tensors.free();
  });
});

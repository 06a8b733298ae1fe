import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dot, expectClose, numericalGradient, onEveryBuild, randomFloats } from './testing/tensors.ts';

interface PackedRow {
  readonly start: number;
  readonly length: number;
  readonly prefixStart: number;
  readonly prefixLength: number;
}

interface Shape {
  readonly tokens: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly full?: boolean;
  readonly window?: number;
  readonly cap?: number;
}

/** Attention as its formula says, in double: softmax(q·k / √headDim, soft-capped)·v over the visible tokens. */
function reference(shape: Shape, rows: readonly PackedRow[], q: number[], k: number[], v: number[]) {
  const { tokens, heads, kvHeads, headDim, full, window = 0, cap = 0 } = shape;
  const out = Array.from({ length: tokens * heads * headDim }, () => 0);
  const logsumexp = Array.from({ length: tokens * heads }, () => 0);
  for (const row of rows) {
    for (let i = 0; i < row.length; i++) {
      const visible = [
        ...Array.from({ length: row.prefixLength }, (_, j) => row.prefixStart + j),
        ...Array.from({ length: full ? row.length : i + 1 }, (_, j) => row.start + j),
      ].slice(-window);
      for (let h = 0; h < heads; h++) {
        const kv = Math.floor(h / (heads / kvHeads));
        const at = (row.start + i) * heads + h;
        const scores = visible.map((token) => {
          let sum = 0;
          for (let d = 0; d < headDim; d++) {
            sum += q[at * headDim + d]! * k[(token * kvHeads + kv) * headDim + d]!;
          }
          const score = sum / Math.sqrt(headDim);
          return cap ? cap * Math.tanh(score / cap) : score;
        });
        const most = Math.max(...scores);
        const total = scores.reduce((sum, score) => sum + Math.exp(score - most), 0);
        logsumexp[at] = most + Math.log(total);
        for (const [j, token] of visible.entries()) {
          const weight = Math.exp(scores[j]! - most) / total;
          for (let d = 0; d < headDim; d++) {
            out[at * headDim + d]! += weight * v[(token * kvHeads + kv) * headDim + d]!;
          }
        }
      }
    }
  }
  return { out, logsumexp };
}

/** Rows one after another with gaps between them; some see a prefix inside an earlier row. */
const layouts = fc
  .array(fc.record({ length: fc.nat(12), gap: fc.nat(2), from: fc.nat(20), share: fc.nat(12) }), {
    minLength: 1,
    maxLength: 5,
  })
  .map((specs) => {
    const rows: PackedRow[] = [];
    let at = 0;
    for (const { length, gap, from, share } of specs) {
      const owner = rows[from];
      const prefixLength = owner && owner.prefixLength === 0 ? Math.min(share, owner.length) : 0;
      rows.push({ start: at, length, prefixStart: prefixLength ? owner!.start : 0, prefixLength });
      at += length + gap;
    }
    return { rows, tokens: at };
  });
/** Who sees what: all before, all, or the last few; with and without a soft cap on the scores. */
const sights = fc.constantFrom({}, { full: true }, { window: 1 }, { window: 7, cap: 3 }, { cap: 0.8 });
const headShapes = fc.constantFrom([1, 1, 2], [2, 1, 6], [4, 2, 16], [3, 3, 20], [8, 2, 32], [6, 2, 10]);

await onEveryBuild((kernels, tensors) => {
  function rowLists(rows: readonly PackedRow[]) {
    return {
      rows: rows.length,
      rowStart: tensors.ints(rows.map(({ start }) => start)),
      rowLength: tensors.ints(rows.map(({ length }) => length)),
      prefixStart: tensors.ints(rows.map(({ prefixStart }) => prefixStart)),
      prefixLength: tensors.ints(rows.map(({ prefixLength }) => prefixLength)),
    };
  }

  function forward(shape: Shape, rows: readonly PackedRow[], q: number[], k: number[], v: number[]) {
    const { tokens, heads, headDim } = shape;
    const call = {
      ...shape,
      ...rowLists(rows),
      q: tensors.floats(q),
      k: tensors.floats(k),
      v: tensors.floats(v),
    };
    const out = tensors.floats(Array.from({ length: tokens * heads * headDim }, () => 0));
    const logsumexp = tensors.floats(Array.from({ length: tokens * heads }, () => 0));
    kernels.attention({ ...call, out, logsumexp });
    return { ...call, out, logsumexp };
  }

  test('attention over packed rows with shared prefixes, causal, full or in a window, equals its formula', () => {
    fc.assert(
      fc.property(layouts, headShapes, sights, ({ rows, tokens }, [heads, kvHeads, headDim], sight) => {
        const shape = { tokens, heads: heads!, kvHeads: kvHeads!, headDim: headDim!, ...sight };
        const q = randomFloats(tokens * heads! * headDim!, 1, 3);
        const [k, v] = [
          randomFloats(tokens * kvHeads! * headDim!, 2, 3),
          randomFloats(tokens * kvHeads! * headDim!, 3),
        ];
        const expected = reference(shape, rows, q, k, v);
        const { out, logsumexp } = forward(shape, rows, q, k, v);
        expectClose(tensors.read(out, expected.out.length), expected.out);
        expectClose(tensors.read(logsumexp, expected.logsumexp.length), expected.logsumexp);
        tensors.free();
      }),
      { numRuns: 100, seed: 1 },
    );
  });

  test('long rows and prefixes, in many tiles, equal the formula', () => {
    const shape = { tokens: 700, heads: 4, kvHeads: 2, headDim: 8 };
    const rows = [
      { start: 3, length: 400, prefixStart: 0, prefixLength: 0 },
      { start: 403, length: 33, prefixStart: 3, prefixLength: 311 },
      { start: 440, length: 260, prefixStart: 5, prefixLength: 100 },
    ];
    const q = randomFloats(700 * 32, 4, 2);
    const [k, v] = [randomFloats(700 * 16, 5, 2), randomFloats(700 * 16, 6)];
    for (const sight of [{}, { window: 33 }, { window: 150, cap: 2 }]) {
      const expected = reference({ ...shape, ...sight }, rows, q, k, v);
      expectClose(tensors.read(forward({ ...shape, ...sight }, rows, q, k, v).out, 700 * 32), expected.out);
      tensors.free();
    }
  });

  test('its backward is the gradient by q, k and v, summed over the rows that share a prefix', () => {
    const cases: readonly [Shape, readonly PackedRow[]][] = [
      [
        { tokens: 5, heads: 2, kvHeads: 1, headDim: 4 },
        [{ start: 0, length: 5, prefixStart: 0, prefixLength: 0 }],
      ],
      [
        { tokens: 21, heads: 2, kvHeads: 2, headDim: 2 },
        [
          { start: 1, length: 9, prefixStart: 0, prefixLength: 0 },
          { start: 10, length: 4, prefixStart: 1, prefixLength: 6 },
          { start: 14, length: 0, prefixStart: 1, prefixLength: 6 },
          { start: 15, length: 5, prefixStart: 1, prefixLength: 9 },
        ],
      ],
      [
        { tokens: 21, heads: 2, kvHeads: 1, headDim: 4, window: 5, cap: 1.5 },
        [
          { start: 1, length: 9, prefixStart: 0, prefixLength: 0 },
          { start: 10, length: 11, prefixStart: 1, prefixLength: 6 },
        ],
      ],
      [
        { tokens: 19, heads: 2, kvHeads: 1, headDim: 4, full: true },
        [
          { start: 1, length: 7, prefixStart: 0, prefixLength: 0 },
          { start: 8, length: 11, prefixStart: 1, prefixLength: 7 },
        ],
      ],
    ];
    for (const [shape, rows] of cases) {
      const { tokens, heads, kvHeads, headDim } = shape;
      const q = randomFloats(tokens * heads * headDim, 7);
      const [k, v] = [
        randomFloats(tokens * kvHeads * headDim, 8),
        randomFloats(tokens * kvHeads * headDim, 9),
      ];
      const dout = randomFloats(q.length, 10);
      const zeros = (count: number) => tensors.floats(Array.from({ length: count }, () => 0));
      const call = forward(shape, rows, q, k, v);
      const [dq, dk, dv] = [zeros(q.length), zeros(k.length), zeros(v.length)];
      kernels.attentionBackward({ ...call, dout: tensors.floats(dout), dq, dk, dv });
      const loss = () => dot(reference(shape, rows, q, k, v).out, dout);
      expectClose(tensors.read(dq, q.length), numericalGradient(loss, q), 1e-5);
      expectClose(tensors.read(dk, k.length), numericalGradient(loss, k), 1e-5);
      expectClose(tensors.read(dv, v.length), numericalGradient(loss, v), 1e-5);
      tensors.free();
    }
  });

  test('at any shape, the backward agrees with the derivative along a random direction', () => {
    const bigger = layouts.map(({ rows, tokens }) => ({
      tokens: tokens * 30,
      rows: rows.map((row) => ({
        start: row.start * 30,
        length: row.length * 30,
        prefixStart: row.prefixStart * 30,
        prefixLength: row.prefixLength * 29,
      })),
    }));
    fc.assert(
      fc.property(fc.oneof(layouts, bigger), headShapes, sights, (layout, sizes, sight) => {
        const { rows, tokens } = layout;
        const [heads, kvHeads, headDim] = sizes;
        const shape = { tokens, heads: heads!, kvHeads: kvHeads!, headDim: headDim!, ...sight };
        if (tokens * heads! * headDim! > 10_000) return;
        const q = randomFloats(tokens * heads! * headDim!, 11, 2);
        const [k, v] = [
          randomFloats(tokens * kvHeads! * headDim!, 12, 2),
          randomFloats(tokens * kvHeads! * headDim!, 13),
        ];
        const dout = randomFloats(q.length, 14);
        const zeros = (count: number) => tensors.floats(Array.from({ length: count }, () => 0));
        const call = forward(shape, rows, q, k, v);
        const [dq, dk, dv] = [zeros(q.length), zeros(k.length), zeros(v.length)];
        kernels.attentionBackward({ ...call, dout: tensors.floats(dout), dq, dk, dv });
        for (const [values, gradient, seed] of [
          [q, dq, 15],
          [k, dk, 16],
          [v, dv, 17],
        ] as const) {
          const direction = randomFloats(values.length, seed);
          const at = (step: number) => {
            const moved = values.map((value, i) => value + step * direction[i]!);
            const inputs = [q, k, v].map((tensor) => (tensor === values ? moved : tensor));
            return dot(reference(shape, rows, inputs[0]!, inputs[1]!, inputs[2]!).out, dout);
          };
          const expected = (at(1e-4) - at(-1e-4)) / 2e-4;
          const actual = dot(tensors.read(gradient, values.length), direction);
          expect(Math.abs(actual - expected)).toBeLessThan(
            1e-4 * Math.sqrt(values.length + 1) + 1e-4 * Math.abs(expected),
          );
        }
        tensors.free();
      }),
      { numRuns: 20, seed: 2 },
    );
  });

  test('a row gives the same bits alone, among others, and with its prefix shared', () => {
    const shape = { tokens: 300, heads: 4, kvHeads: 2, headDim: 24 };
    const [q, k, v] = [
      randomFloats(300 * 96, 18, 3),
      randomFloats(300 * 48, 19, 3),
      randomFloats(300 * 48, 20),
    ];
    const packed = [
      { start: 0, length: 130, prefixStart: 0, prefixLength: 0 },
      { start: 137, length: 60, prefixStart: 0, prefixLength: 90 },
    ];
    const together = forward(shape, packed, q, k, v);
    const outOf = (pointer: number, token: number, count: number) =>
      tensors.bits(pointer + 4 * token * 96, count * 96);
    // The second row alone, its prefix copied in front of it at another offset.
    const pick = (values: readonly number[], width: number) => [
      ...values.slice(0, 5 * width),
      ...values.slice(0, 90 * width),
      ...values.slice(137 * width, 197 * width),
    ];
    const alone = forward(
      { ...shape, tokens: 155 },
      [{ start: 5, length: 150, prefixStart: 0, prefixLength: 0 }],
      pick(q, 96),
      pick(k, 48),
      pick(v, 48),
    );
    expect(outOf(alone.out, 95, 60).equals(outOf(together.out, 137, 60))).toBe(true);
    const short = forward(shape, [{ start: 0, length: 17, prefixStart: 0, prefixLength: 0 }], q, k, v);
    expect(outOf(short.out, 0, 17).equals(outOf(together.out, 0, 17))).toBe(true);
    tensors.free();
  });

  /** The nearest numbers that bfloat16 has, by the kernel that trainers round with. */
  function rounded(values: number[]): number[] {
    const x = tensors.floats(values);
    kernels.round({ x, rows: 1, width: values.length });
    return [...tensors.read(x, values.length)];
  }

  test('what is rounded to bfloat16 is as narrowing and widening has it, and what lies between rows stays', () => {
    const values = [
      ...randomFloats(300, 9),
      1 + 2 ** -8,
      1 + 3 * 2 ** -8,
      -(2 ** -130),
      3.4e38,
      Infinity,
      0,
      -0,
    ];
    const x = tensors.floats(values);
    const [narrow, wide] = [tensors.blank(values.length), tensors.blank(values.length)];
    kernels.narrow({ from: x, to: narrow, count: values.length, format: 'bf16' });
    kernels.widen({ from: narrow, to: wide, count: values.length, format: 'bf16' });
    const expected = tensors.read(wide, values.length);
    expect(rounded(values)).toEqual([...expected]);
    kernels.round({ x, rows: 30, width: 7, stride: 10 });
    expect([...tensors.read(x, values.length)]).toEqual(
      [...tensors.read(tensors.floats(values), values.length)].map((value, at) =>
        at < 297 && at % 10 < 7 ? expected[at] : value,
      ),
    );
    tensors.free();
  });

  /** A cache whose blocks are handed out in a scrambled order, and the calls on it. */
  function makeCache(
    shape: Omit<Shape, 'tokens'> & { readonly half?: boolean },
    sequences: number,
    capacity: number,
    blockTokens: number,
    /** Whose block stands in a sequence's place of the table; default its own. */
    owner: (sequence: number, block: number) => number = (sequence) => sequence,
  ) {
    const perSequence = Math.ceil(capacity / blockTokens);
    const blocks = perSequence * sequences + 1;
    const { kvHeads, headDim, half = false } = shape;
    const cache = { blocks, blockTokens, kvHeads, headDim, half };
    const bytes = kernels.cacheBytes(cache);
    const unwritten = () => tensors.floats(Array<number>(bytes / 4).fill(Number.NaN));
    const table = Array.from({ length: sequences * perSequence }, (_, i) => {
      const block = i % perSequence;
      return blocks - 1 - block - owner((i - block) / perSequence, block) * perSequence;
    });
    const call = {
      ...cache,
      keys: unwritten(),
      values: unwritten(),
      blockTable: tensors.ints(table),
      sequenceCount: sequences,
      blocksPerSequence: perSequence,
    };
    return (list: readonly (readonly [number, number])[], q: number[], k: number[], v: number[]) => {
      const step = {
        ...call,
        tokens: list.length,
        sequences: tensors.ints(list.map(([sequence]) => sequence)),
        positions: tensors.ints(list.map(([, position]) => position)),
      };
      kernels.cacheWrite({ ...step, k: tensors.floats(k), v: tensors.floats(v) });
      const out = tensors.blank(q.length);
      const { heads, window, cap } = shape;
      kernels.cacheAttention({ ...step, q: tensors.floats(q), out, heads, window, cap });
      return out;
    };
  }

  test('decode, prefill, chunked prefill and training give the same bits', () => {
    const shapes = [
      [4, 2, 24, 16, 0, 0],
      [3, 3, 32, 32, 0, 0],
      [8, 1, 10, 48, 0, 0],
      [4, 2, 9, 16, 0, 0],
      [2, 2, 128, 16, 0, 0],
      [6, 2, 40, 16, 0, 0],
      [16, 4, 64, 32, 0, 0],
      [4, 2, 24, 16, 20, 0],
      [3, 3, 32, 32, 7, 2],
      [16, 4, 64, 16, 33, 5],
    ] as const;
    for (const [[heads, kvHeads, headDim, blockTokens, window, cap], half] of shapes.flatMap((shape) =>
      [false, true].map((half) => [shape, half] as const),
    )) {
      const length = 83;
      const shape = { heads, kvHeads, headDim, window, cap, half };
      const [wide, narrow] = [heads * headDim, kvHeads * headDim];
      const q = randomFloats(length * wide, 21, 2);
      const [k, v] = [randomFloats(length * narrow, 22, 2), randomFloats(length * narrow, 23)];
      const [heldK, heldV] = half ? [rounded(k), rounded(v)] : [k, v];
      const whole = [{ start: 0, length, prefixStart: 0, prefixLength: 0 }];
      const training = forward({ ...shape, tokens: length }, whole, q, heldK, heldV);
      expectClose(
        tensors.read(training.out, length * wide),
        reference({ ...shape, tokens: length }, whole, q, heldK, heldV).out,
      );
      const expected = tensors.bits(training.out, length * wide);
      const slice = (values: number[], width: number, from: number, to: number) =>
        values.slice(from * width, to * width);
      // Sequence 0 in one call; sequence 1 by chunks; sequence 2 token by token, beside a token of sequence 0 or 1.
      const run = makeCache(shape, 3, 96, blockTokens);
      const all = Array.from({ length }, (_, position) => [0, position] as const);
      expect(tensors.bits(run(all, q, k, v), length * wide).equals(expected)).toBe(true);
      for (let from = 0; from < length; from += 19) {
        const to = Math.min(length, from + 19);
        const list = Array.from({ length: to - from }, (_, i) => [1, from + i] as const);
        const out = run(
          list,
          slice(q, wide, from, to),
          slice(k, narrow, from, to),
          slice(v, narrow, from, to),
        );
        const bytes = expected.subarray(4 * from * wide, 4 * to * wide);
        expect(tensors.bits(out, (to - from) * wide).equals(bytes)).toBe(true);
      }
      for (let at = 0; at < length; at++) {
        const two = (values: number[], width: number) => [
          ...slice(values, width, at, at + 1),
          ...slice(values, width, 5, 6),
        ];
        const out = run(
          [
            [2, at],
            [at % 2, 5],
          ],
          two(q, wide),
          two(k, narrow),
          two(v, narrow),
        );
        const bytes = Buffer.concat([
          expected.subarray(4 * at * wide, 4 * (at + 1) * wide),
          expected.subarray(20 * wide, 24 * wide),
        ]);
        expect(tensors.bits(out, 2 * wide).equals(bytes)).toBe(true);
      }
      tensors.free();
    }
  });

  test('tokens of sequences with a common beginning have the bits they have alone', () => {
    for (const [heads, kvHeads, headDim, blockTokens, half] of [
      [4, 2, 24, 16, false],
      [6, 2, 64, 16, false],
      [5, 5, 32, 32, false],
      [9, 1, 16, 16, false],
      [4, 2, 24, 16, true],
      [6, 2, 64, 16, true],
      [5, 5, 32, 32, true],
      [9, 1, 16, 16, true],
    ] as const) {
      const sequences = 11;
      const shape = { heads, kvHeads, headDim, half };
      const [wide, narrow] = [heads * headDim, kvHeads * headDim];
      // The third has nothing in common with the others, and the eighth only a part.
      const common = (sequence: number) => (sequence === 2 ? 0 : sequence === 7 ? 64 : 96);
      const run = makeCache(shape, sequences, 160, blockTokens, (sequence, block) =>
        (block + 1) * blockTokens <= common(sequence) ? 0 : sequence,
      );
      const length = (sequence: number) => 97 + 5 * sequence;
      const rows = (width: number, seed: number, count: number) => randomFloats(count * width, seed, 2);
      const begin = { k: rows(narrow, 31, 160), v: rows(narrow, 32, 160) };
      const lists = Array.from({ length: sequences }, (_, sequence) => {
        const list = Array.from({ length: length(sequence) }, (_, position) => [sequence, position] as const);
        const own = (from: number[], seed: number) => [
          ...from.slice(0, common(sequence) * narrow),
          ...rows(narrow, seed + sequence, list.length - common(sequence)),
        ];
        run(list, rows(wide, 33, list.length), own(begin.k, 40), own(begin.v, 60));
        return list;
      });
      const last = lists.map((list) => list.at(-1)!);
      const q = rows(wide, 35, sequences);
      const [k, v] = [rows(narrow, 36, sequences), rows(narrow, 37, sequences)];
      const together = tensors.bits(run(last, q, k, v), sequences * wide);
      for (const [at, place] of last.entries()) {
        const one = (values: number[], width: number) => values.slice(at * width, (at + 1) * width);
        const alone = tensors.bits(run([place], one(q, wide), one(k, narrow), one(v, narrow)), wide);
        expect(together.subarray(4 * at * wide, 4 * (at + 1) * wide).equals(alone)).toBe(true);
      }
      tensors.free();
    }
  });
});

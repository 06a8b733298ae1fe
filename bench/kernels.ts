/**
 * Speed of single kernels: `--threads 2 --kind native|wasm`. On a busy machine the figures are lower bounds: each is the
 * best of several samples.
 */

import { readFlags } from '../scripts/flags.ts';
import { atLeast, conclude } from '../scripts/verdict.ts';
import { openKernels } from '../src/engine/kernels/open.ts';

const flags = readFlags({ threads: '2', kind: 'native' }, {});
const threads = Number(flags.threads);
const kind = flags.kind === 'wasm' ? 'wasm' : 'native';
const kernels = await openKernels({ threads, kind });
const report: Record<string, number> = {};

function floats(count: number): number {
  const pointer = kernels.alloc(4 * count);
  const view = kernels.f32(pointer, count);
  for (let i = 0; i < count; i++) view[i] = Math.sin(i * 12.9898);
  return pointer;
}

/** With one thread its own time counts, which other programs on the machine hardly change; with more, the clock's. */
function now(): number {
  if (threads > 1) return performance.now();
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The best of several samples of about 20 ms, in seconds a run. */
function seconds(run: () => void): number {
  run();
  let best = Number.POSITIVE_INFINITY;
  for (let sample = 0; sample < 6; sample++) {
    const start = now();
    let runs = 0;
    do {
      run();
      runs++;
    } while (now() - start < 20);
    best = Math.min(best, (now() - start) / runs / 1000);
  }
  return best;
}

function show(name: string, flops: number, time: number): void {
  const speed = flops / time / 1e9;
  process.stdout.write(
    `${name.padEnd(44)} ${speed.toFixed(1).padStart(7)} GFLOP/s ${(time * 1e6).toFixed(1).padStart(10)} µs\n`,
  );
  report[name] = Number(speed.toFixed(1));
}

for (const [m, n, k] of [
  [1, 128, 128],
  [1, 384, 128],
  [1, 1024, 1024],
  [1, 8192, 2048],
  [1, 151936, 128],
  [32, 128, 128],
  [32, 704, 128],
  [32, 151, 128],
  [32, 1024, 1024],
  [4096, 384, 128],
  [4096, 128, 352],
  [4096, 1024, 1024],
] as const) {
  const [x, w, y] = [floats(m * k), floats(n * k), floats(m * n)];
  const packed = kernels.alloc(kernels.packedBytes(n, k));
  kernels.pack({ weight: w, n, k, packed });
  show(
    `matmul ${m}×${n}×${k}`,
    2 * m * n * k,
    seconds(() => kernels.matmul({ x, packed, y, m, n, k })),
  );
  if (m > 1) {
    show(
      `weightGradient ${m}×${n}×${k}`,
      2 * m * n * k,
      seconds(() => kernels.weightGradient({ dy: y, x, dw: w, m, n, k })),
    );
  }
  for (const pointer of [x, w, y, packed]) kernels.free(pointer);
}

for (const [count, length, heads, kvHeads, headDim] of [
  [16, 256, 4, 4, 32],
  [16, 256, 8, 2, 64],
  [2, 2048, 8, 2, 64],
] as const) {
  const tokens = count * length;
  const ints = (values: number[]) => {
    const pointer = kernels.alloc(4 * values.length);
    kernels.i32(pointer, values.length).set(values);
    return pointer;
  };
  const zeros = ints(Array.from({ length: count }, () => 0));
  const call = {
    tokens,
    heads,
    kvHeads,
    headDim,
    rows: count,
    rowStart: ints(Array.from({ length: count }, (_, row) => row * length)),
    rowLength: ints(Array.from({ length: count }, () => length)),
    prefixStart: zeros,
    prefixLength: zeros,
    q: floats(tokens * heads * headDim),
    k: floats(tokens * kvHeads * headDim),
    v: floats(tokens * kvHeads * headDim),
    out: floats(tokens * heads * headDim),
    logsumexp: floats(tokens * heads),
  };
  const flops = 2 * count * length * length * heads * headDim; // both products, half of them masked
  const name = `${count}×${length}, ${heads}/${kvHeads} heads of ${headDim}`;
  show(
    `attention ${name}`,
    flops,
    seconds(() => kernels.attention(call)),
  );
  const [dq, dk, dv] = [
    floats(tokens * heads * headDim),
    floats(tokens * kvHeads * headDim),
    floats(tokens * kvHeads * headDim),
  ];
  show(
    `attentionBackward ${name}`,
    2.5 * flops,
    seconds(() => kernels.attentionBackward({ ...call, dout: call.q, dq, dk, dv })),
  );
  // Decode: one token of each sequence, at its end.
  const perSequence = length / 16;
  const cache = { blocks: count * perSequence, blockTokens: 16, kvHeads, headDim };
  const bytes = kernels.cacheBytes(cache);
  const step = {
    ...cache,
    keys: floats(bytes / 4),
    values: floats(bytes / 4),
    sequenceCount: count,
    blocksPerSequence: perSequence,
    blockTable: ints(Array.from({ length: count * perSequence }, (_, i) => i)),
    tokens: count,
    sequences: ints(Array.from({ length: count }, (_, i) => i)),
    positions: ints(Array.from({ length: count }, () => length - 1)),
  };
  show(
    `cacheAttention ${name}`,
    4 * count * length * heads * headDim,
    seconds(() => kernels.cacheAttention({ ...step, q: call.q, out: call.out, heads })),
  );
}

{
  const [rows, width] = [4096, 352];
  const [gate, up, out, dgate, dup] = [1, 2, 3, 4, 5].map(() => floats(rows * width)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  show(
    'siluMultiply 4096×352 (elements)',
    rows * width,
    seconds(() => kernels.siluMultiply({ gate, up, out, rows, width })),
  );
  show(
    'siluMultiplyBackward 4096×352 (elements)',
    rows * width,
    seconds(() => kernels.siluMultiplyBackward({ gate, up, dout: out, dgate, dup, rows, width })),
  );
  const [x, weight, inverse] = [floats(4096 * 128), floats(128), floats(4096)];
  show(
    'rmsNorm 4096×128 (elements)',
    4096 * 128,
    seconds(() => kernels.rmsNorm({ x, weight, out: gate, inverse, rows: 4096, width: 128, epsilon: 1e-5 })),
  );
  show(
    'rmsNormBackward 4096×128 (elements)',
    4096 * 128,
    seconds(() =>
      kernels.rmsNormBackward({
        x,
        weight,
        inverse,
        dy: gate,
        dx: up,
        dweight: weight,
        rows: 4096,
        width: 128,
      }),
    ),
  );
  show(
    'adamW 1M (elements)',
    1e6,
    seconds(() =>
      kernels.adamW({
        parameter: gate,
        gradient: up,
        moment1: out,
        moment2: dgate,
        count: 1e6,
        learningRate: 0,
        beta1: 0.9,
        beta2: 0.9,
        epsilon: 1e-8,
        weightDecay: 0,
        step: 1,
      }),
    ),
  );
  kernels.fill({ x: x, value: 1, count: 1 });
  show(
    'one small call (calls, in G)',
    1,
    seconds(() => kernels.fill({ x, value: 1, count: 1 })),
  );
}
await kernels.close();
// What a triple loop in JavaScript reaches on one core is about 1 GFLOP/s.
conclude([atLeast('GFLOP/s of a large matmul, per thread', report['matmul 4096×1024×1024']! / threads, 5)], {
  kind,
  threads,
  ...report,
});

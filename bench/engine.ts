/**
 * `npm run bench:engine [-- --against torch] [--python PATH] [--threads n] [--rounds n] [--kernels wasm] [--sizes 1M,11M]`
 * Speed of the embedded engine, alone or interleaved with PyTorch on the same shapes. The last line is JSON.
 */

import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { benchGeneration } from './engine-generation.ts';
import { benchTraining, type TrainingBench } from './engine-training.ts';
import { TorchPeer } from './torch-peer.ts';

const { values } = parseArgs({
  options: {
    against: { type: 'string' },
    python: { type: 'string', default: process.env.PYTHON ?? 'python3' },
    threads: { type: 'string', default: String(availableParallelism()) },
    rounds: { type: 'string', default: '5' },
    kernels: { type: 'string' },
    sizes: { type: 'string', default: '1M,11M,26M' },
  },
});

const threads = Number(values.threads);
const torch = values.against === 'torch' ? new TorchPeer(values.python) : undefined;
console.log(
  `node ${process.version}, ${cpus()[0]?.model}, ${threads} threads; vector units: ${vectorUnits()}`,
);
if (torch) console.log(`peer: ${JSON.stringify(await torch.ask({ do: 'about' }))}`);

const options: TrainingBench = {
  threads,
  rounds: Number(values.rounds),
  kernels: values.kernels === 'wasm' || values.kernels === 'native' ? values.kernels : undefined,
  sizes: values.sizes.split(','),
  torch,
};
const figures = { ...(await benchTraining(options)), ...(await benchGeneration(options)) };
await torch?.close();

const rounded = (entries: readonly [string, number][]) =>
  Object.fromEntries(entries.map(([name, value]) => [name, Number(value.toPrecision(4))]));
const ratios = Object.entries(figures)
  .filter(([name]) => name.startsWith('ratio'))
  .map(([name, value]) => [name.replace(/^ratioT/, 't').replace(/^ratioG/, 'g'), value] as [string, number]);
console.log(
  JSON.stringify({ ...rounded(Object.entries(figures)), ...(torch ? { ratios: rounded(ratios) } : {}) }),
);

function vectorUnits(): string {
  try {
    const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ') ?? [];
    return flags.filter((flag) => /^(avx|fma|amx)/.test(flag)).join(' ') || 'none listed';
  } catch {
    return 'unknown';
  }
}

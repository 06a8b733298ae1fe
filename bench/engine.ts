/**
 * Speed of the embedded engine, alone or interleaved with PyTorch on the same shapes.
 * `--against torch --python PATH --threads N --rounds N --kernels wasm --sizes 1M,11M`
 * `--images` measures a model that sees instead, with the same flags.
 * `--against peft --model DIR --python PATH` trains an adapter of a model folder, interleaved with PyTorch and peft.
 * `--against llama --model DIR --gguf FILE --python PATH` generates with a model folder and with llama.cpp, interleaved.
 */

import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { readFlags } from '../scripts/flags.ts';
import { atLeast, atMost, conclude } from '../scripts/verdict.ts';
import { defaultPython } from '../src/torch/environment.ts';
import { benchGeneration } from './engine/generation.ts';
import { benchImages } from './engine/images.ts';
import { benchLlama } from './engine/llama.ts';
import { benchLora } from './engine/lora.ts';
import { PythonPeer } from './engine/python-peer.ts';
import { benchTraining, type TrainingBench } from './engine/training.ts';

const values = readFlags(
  {
    against: '',
    python: process.env.PYTHON ?? defaultPython(),
    threads: String(availableParallelism()),
    rounds: '5',
    kernels: '',
    sizes: '1M,11M,26M',
    images: false,
    model: '',
    gguf: '',
  },
  { rounds: '2', sizes: '1M,11M' },
);

/**
 * What each aim compares, by the clock, on a machine with AVX-512. `best…`: the faster arithmetic of ours, float32 or
 * bfloat16, with the faster one of PyTorch (which trains in bfloat16 under autocast). `…Images`: both compute in float32;
 * `ratio…ImagesByProcessorTime` is a figure without an aim.
 */
const TORCH_AIMS: Readonly<Record<string, { readonly figure: string; readonly least: number }>> = {
  'training 1M': { figure: 'bestTrain1M', least: 1.8 },
  'training 11M': { figure: 'bestTrain11M', least: 1.1 },
  'generation 1M at 32 requests': { figure: 'bestGenerate32', least: 5 },
  'generation 1M at 128 requests': { figure: 'bestGenerate128', least: 3 },
  'generation 11M at 32 requests': { figure: 'bestGenerate32At11M', least: 4 },
  'training with images': { figure: 'ratioTrainImages', least: 1 },
  'generation with images at 32 requests': { figure: 'ratioGenerateImages', least: 3 },
};

const threads = Number(values.threads);
console.log(
  `node ${process.version}, ${cpus()[0]?.model}, ${threads} threads; vector units: ${vectorUnits()}`,
);
if (values.against === 'peft') await benchAdapter();
else if (values.against === 'llama') await benchFolder();
else await benchShapes();

/** Of the ready shapes, alone or against PyTorch. */
async function benchShapes(): Promise<void> {
  const torch =
    values.against === 'torch'
      ? new PythonPeer(values.python, values.images ? 'torch_vision' : 'torch_engine')
      : undefined;
  if (torch) console.log(`peer: ${JSON.stringify(await torch.ask({ do: 'about' }))}`);

  const options: TrainingBench = {
    threads,
    rounds: Number(values.rounds),
    kernels: values.kernels === 'wasm' || values.kernels === 'native' ? values.kernels : undefined,
    sizes: values.images ? [] : values.sizes.split(','),
    torch,
  };
  const figures = values.images
    ? await benchImages(options)
    : { ...(await benchTraining(options)), ...(await benchGeneration(options)) };
  await torch?.close();

  const ratios = Object.entries(figures)
    .filter(([name]) => /^(ratio|best)[A-Z]/.test(name))
    .map(
      ([name, value]) => [name.replace(/^ratioT/, 't').replace(/^ratioG/, 'g'), value] as [string, number],
    );
  const all: Readonly<Record<string, number | undefined>> = figures;
  const sizes = options.sizes.map((size) => ({
    size,
    computed: all[`multiTurn${size}ComputedPromptTokens`]! / all[`multiTurn${size}NecessaryPromptTokens`]!,
    costOfLength: all[`costAt2048Over256For${size}`],
  }));
  conclude(
    [
      ...sizes.map(({ size, computed }) =>
        atMost(`${size}: computed over necessary prompt tokens`, computed, 1.05),
      ),
      ...sizes.flatMap(({ size, costOfLength }) =>
        costOfLength === undefined
          ? []
          : [atMost(`${size}: cost per token at 2,048 over 256 tokens`, costOfLength, 2)],
      ),
      ...Object.entries(figures)
        .filter(([name]) => name.endsWith('DelayP99Milliseconds'))
        .map(([name, value]) => atMost(name, value, 10)),
      ...(torch
        ? Object.entries(TORCH_AIMS)
            .filter(([name]) =>
              (values.images ? ['images'] : options.sizes).some((size) => name.includes(` ${size}`)),
            )
            .map(([name, { figure, least }]) => atLeast(`${name} against torch`, all[figure], least))
        : []),
    ],
    { ...rounded(Object.entries(figures)), ...(torch ? { ratios: rounded(ratios) } : {}) },
  );
}

/** An adapter of a model folder, against PyTorch with peft. */
async function benchAdapter(): Promise<void> {
  const { model, python } = values;
  if (!model) throw new Error('--against peft needs --model DIR');
  const peer = new PythonPeer(python, 'peft_lora');
  console.log(`peer: ${JSON.stringify(await peer.ask({ do: 'about' }))}`);
  const figures = await benchLora({ model, threads, rounds: Number(values.rounds), peer });
  await peer.close();
  conclude(
    [atLeast('LoRA training against PyTorch, each in its faster arithmetic', figures.bestTrainLora, 1.5)],
    rounded(Object.entries(figures)),
  );
}

/** Generation with a model folder, against llama.cpp with the weights of the file it was converted from. */
async function benchFolder(): Promise<void> {
  const { model, gguf, python } = values;
  if (!model || !gguf) throw new Error('--against llama needs --model DIR and --gguf FILE');
  const peer = new PythonPeer(python, 'llama_engine');
  console.log(`peer: ${JSON.stringify(await peer.ask({ do: 'about' }))}`);
  const figures = await benchLlama({ model, gguf, threads, rounds: Number(values.rounds), peer });
  await peer.close();
  conclude(
    ['Q8_0', 'BF16'].flatMap((type) => [
      atLeast(`generation at 1 request against llama.cpp in ${type}`, figures[`ratio${type}At1`], 1),
      atLeast(`generation at 32 requests against llama.cpp in ${type}`, figures[`ratio${type}At32`], 2),
    ]),
    rounded(Object.entries(figures)),
  );
}

function rounded(entries: readonly [string, number][]) {
  return Object.fromEntries(entries.map(([name, value]) => [name, Number(value.toPrecision(4))]));
}

function vectorUnits(): string {
  try {
    const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ') ?? [];
    return flags.filter((flag) => /^(avx|fma|amx)/.test(flag)).join(' ') || 'none listed';
  } catch {
    return 'unknown';
  }
}

/**
 * The native kernels on ARM, under emulation: an arm64 Node under qemu builds the addon and runs the engine's tests, on a
 * processor that multiplies bfloat16 (BFDOT) and bytes (SDOT), on one with SDOT alone, and on one with neither; built by gcc and
 * by clang. Says nothing of speed. Needs qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, clang and lld of Debian on
 * Linux; Node and the packages of the repository are put into ~/.cache/rollcall/arm.
 */
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { armMachine, type Processor, setUp, whatIsMissing } from './arm/machine.ts';
import { readFlags } from './flags.ts';
import { type Aim, atLeast, atMost, conclude, concludeFailed, holds } from './verdict.ts';

const PRODUCTS = ['src/engine/kernels/matmul.test.ts'];
const KERNELS = ['attention', 'head-ops', 'heap', 'layer-ops', 'update-ops'].map(
  (name) => `src/engine/kernels/${name}.test.ts`,
);
/** Goldens of every family, gradients, and that a trainer scores the log-probs that a server sampled with, to the bit. */
const ENGINE = [
  'src/engine/generation/golden.test.ts',
  'src/engine/model/frozen-matrices.test.ts',
  'src/engine/server.test.ts',
  'src/engine/training/lora.test.ts',
  'src/engine/training/training-engine.test.ts',
];
const ALL = [...PRODUCTS, ...KERNELS, ...ENGINE];
/** MiniMind2-Small, whose weights do not come with the repository. */
const MOST_SKIPPED = 1;
const WILD_CALLS = 6000;

interface Trial extends Processor {
  readonly tests: readonly string[];
  /** Instructions that the kernels use there, and no other of the list. */
  readonly uses: readonly string[];
}
const INSTRUCTIONS = ['bfdot', 'sdot'];
const TRIALS: readonly Trial[] = [
  { cpu: 'max', compiler: 'gcc', march: 'armv8.2-a+dotprod+bf16', tests: ALL, uses: ['bfdot', 'sdot'] },
  { cpu: 'cortex-a72', compiler: 'gcc', march: 'armv8-a', tests: ALL, uses: [] },
  {
    cpu: 'max',
    compiler: 'clang',
    march: 'armv8.2-a+dotprod+bf16',
    tests: PRODUCTS,
    uses: ['bfdot', 'sdot'],
  },
  { cpu: 'cortex-a76', compiler: 'clang', march: 'armv8.2-a+dotprod', tests: PRODUCTS, uses: ['sdot'] },
];

const flags = readFlags({ only: TRIALS.map(nameOf).join() }, {});
const missing = whatIsMissing();
if (missing !== undefined) concludeFailed(`ARM cannot be emulated here: ${missing}`);
else {
  setUp();
  const chosen = TRIALS.filter((trial) => flags.only.split(',').includes(nameOf(trial)));
  conclude(chosen.flatMap((trial) => prove(flags.quick ? { ...trial, tests: PRODUCTS } : trial)));
}

function nameOf({ cpu, compiler }: Processor): string {
  return `${cpu}-${compiler}`;
}

function prove(trial: Trial): Aim[] {
  const name = nameOf(trial);
  const machine = armMachine(trial);
  const report = join(tmpdir(), `rollcall-arm-${process.pid}.json`);
  const patience = ['--testTimeout=900000', '--hookTimeout=900000'];
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const words = ['node_modules/vitest/vitest.mjs', 'run', ...trial.tests, ...patience, ...reporters];
  const status = machine.run(words);
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(report, 'utf8'));
  rmSync(report);

  const fuzz = 'src/engine/kernels/testing/fuzz-process.ts';
  const wild = machine.output(['--import', './bin/register.js', fuzz, 'native', '7', String(WILD_CALLS)]);
  const { accepted, touched } = JSON.parse(wild) as { accepted: number; touched: number };
  const code = machine.addonCode();
  const used = INSTRUCTIONS.filter((instruction) => code.includes(`\t${instruction}\t`));
  return [
    atLeast(`${name}: tests that pass`, numPassedTests, trial.tests.length),
    atMost(`${name}: tests that fail`, numFailedTests, 0),
    atMost(`${name}: tests that were skipped`, numPendingTests, MOST_SKIPPED),
    holds(`${name}: vitest ends with 0`, status === 0, status),
    atLeast(`${name}: wild calls of ${WILD_CALLS} that are accepted`, accepted, 1000),
    holds(`${name}: wild calls touch nothing outside the heap`, touched === -1, touched),
    holds(
      `${name}: the kernels use ${trial.uses.join(' and ') || 'neither instruction'}`,
      `${used}` === `${trial.uses}`,
      used,
    ),
  ];
}

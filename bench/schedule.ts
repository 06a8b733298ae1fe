/**
 * What scheduling is worth, on simulated servers: turns by request against turns by batch, every mode, every policy,
 * and an oracle that knows all lengths. The cases, with their sources, stand in schedule/cases.ts.
 *
 *   npm run bench schedule [-- --quick] [--seeds 3] [--sensitivity no] [--only turns3,programs] [--tasks 16]
 */

import { readFlags } from '../scripts/flags.ts';
import { type Aim, atLeast, atMost, conclude } from '../scripts/verdict.ts';
import { firstCome } from '../src/gateway/policies/first-come.ts';
import { longestFirst } from '../src/gateway/policies/longest-first.ts';
import { programs } from '../src/gateway/policies/programs.ts';
import {
  asynchronous,
  type Mode,
  oneStepOff,
  overSample,
  partial,
  synchronous,
  tailRounds,
} from '../src/modes/mode.ts';
import {
  CASES,
  oneServerOf,
  type ScheduleCase,
  SENSITIVITY,
  TRAINING_ON_HALF,
  TRAINING_SHARE,
} from './schedule/cases.ts';
import {
  type Figures,
  longestAloneSeconds,
  type RolloutSetting,
  rollOutBatch,
  trainInMode,
} from './schedule/runs.ts';

const flags = readFlags(
  {
    seeds: '3',
    /** Also, not, or nothing but what ±50 % of each parameter does. */
    sensitivity: 'also',
    only: 'turns3,turns3Unlimited,turns5tools,programs,modes',
    /** Fewer tasks than the case has: to try the bench, not to quote it. */
    tasks: '',
  },
  { seeds: '1', sensitivity: 'no' },
);
const seeds = Array.from({ length: Number(flags.seeds) }, (_, at) => at + 1);
const chosen = flags.only.split(',');
const sized = (one: ScheduleCase): ScheduleCase =>
  flags.tasks ? { ...one, tasks: Number(flags.tasks) } : one;

type Setting = Omit<RolloutSetting, 'seed'>;
const POLICIES: Readonly<Record<string, Setting>> = {
  none: {},
  firstComeCeiling: { gateway: { policy: firstCome(), ceiling: {} } },
  programs: { gateway: { policy: programs() } },
  longestFirst: { gateway: { policy: longestFirst() } },
  longestFirstCeiling: { gateway: { policy: longestFirst(), ceiling: {} } },
  oracle: { gateway: { policy: longestFirst() }, oracle: true },
};

const ratios: Record<string, number> = {};
const figures: Record<string, Figures> = {};
const sensitivity: Record<string, readonly [number, number]> = {};
const round = (value: number, digits = 3) => Number(value.toPrecision(digits));
const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;

/** The mean over seeds of every figure. */
async function measure(name: string, run: (seed: number) => Promise<Figures>): Promise<Figures> {
  const all: Figures[] = [];
  for (const seed of seeds) all.push(await run(seed));
  const names = Object.keys(all[0]!) as (keyof Figures)[];
  const whole = Object.fromEntries(names.map((key) => [key, mean(all.map((one) => one[key]))]));
  figures[name] = whole as unknown as Figures;
  console.log(row(name, figures[name]));
  return figures[name];
}

const HEAD = [
  'seconds',
  'tokens/s',
  'busy %',
  'batch',
  'median s',
  'p99 s',
  'fair',
  'hits %',
  'preempted',
  'stale',
];

function row(name: string, one: Figures): string {
  const cells = [
    one.seconds.toFixed(1),
    one.tokensPerSecond.toFixed(0),
    (100 * one.utilisation).toFixed(0),
    one.meanBatch.toFixed(0),
    one.medianSeconds.toFixed(1),
    one.p99Seconds.toFixed(1),
    one.fairness.toFixed(2),
    (100 * one.cacheHits).toFixed(0),
    one.preemptions.toFixed(0),
    `${one.meanStaleness.toFixed(1)}/${one.maxStaleness.toFixed(0)}`,
  ];
  return name.padEnd(30) + cells.map((cell) => cell.padStart(10)).join('');
}

const heading = ({ name, what }: ScheduleCase) =>
  console.log(`\n${name}: ${what}\n${''.padEnd(30)}${HEAD.map((cell) => cell.padStart(10)).join('')}`);

/** Turns by request against turns by batch, with and without a prefix cache; then the policies. */
async function compareTurns(one: ScheduleCase): Promise<void> {
  for (const prefixCache of [true, false]) {
    const cached = { ...one, hardware: { ...one.hardware, prefixCache } };
    await compareRequestWithBatch(prefixCache ? cached : { ...cached, name: `${one.name}NoCache` });
  }
  figures[`${one.name}/none`] = figures[`${one.name}/byRequest`]!;
  await comparePolicies(one, ['longestFirst', 'oracle']);
}

async function compareRequestWithBatch(one: ScheduleCase): Promise<void> {
  const batch = await measure(`${one.name}/byBatch`, (seed) => rollOutBatch(one, { seed, byBatch: true }));
  const request = await measure(`${one.name}/byRequest`, (seed) => rollOutBatch(one, { seed }));
  ratios[one.name] = batch.seconds / request.seconds;
  ratios[`${one.name}/most`] = batch.seconds / mean(seeds.map((seed) => longestAloneSeconds(one, seed)));
}

/** Every policy against requests that are sent at once, and against the oracle. */
async function comparePolicies(one: ScheduleCase, names = Object.keys(POLICIES)): Promise<void> {
  for (const name of names) {
    await measure(`${one.name}/${name}`, (seed) => rollOutBatch(one, { ...POLICIES[name]!, seed }));
  }
  const seconds = (name: string) => figures[`${one.name}/${name}`]!.seconds;
  for (const name of names) {
    if (name !== 'none') ratios[`${one.name}/${name}`] = seconds('none') / seconds(name);
  }
  ratios[`${one.name}/longestFirstToOracle`] = seconds('longestFirst') / seconds('oracle');
}

/** How much one setting is better than another when a parameter is half as large, and half as large again. */
async function moveParameters(one: ScheduleCase, slow: Setting, fast: Setting): Promise<void> {
  if (flags.sensitivity === 'no') return;
  const ratioOf = async (moved: ScheduleCase) => {
    const [slower, faster] = [
      await rollOutBatch(moved, { ...slow, seed: 1 }),
      await rollOutBatch(moved, { ...fast, seed: 1 }),
    ];
    return round(slower.seconds / faster.seconds);
  };
  const small = oneServerOf(one);
  console.log(`${one.name} on one server: ratio ${await ratioOf(small)}; each parameter −50 %, +50 %`);
  for (const [name, change] of Object.entries(SENSITIVITY)) {
    const moved = [await ratioOf(change(small, 0.5)), await ratioOf(change(small, 1.5))] as const;
    sensitivity[`${one.name}/${name}`] = moved;
    console.log(`  ${name.padEnd(16)}${moved.map((ratio) => ratio.toFixed(2).padStart(8)).join('')}`);
  }
}

const STEPS = 8;

/** Every mode on the same hardware: one that trains beside generation has half of it for each. */
async function compareModes(one: ScheduleCase): Promise<void> {
  const some = (share: number) => Math.max(1, Math.round(share * one.tasks));
  const modes: Readonly<Record<string, { mode: Mode; split?: number; byBatch?: boolean }>> = {
    synchronousByBatch: { mode: synchronous(), byBatch: true },
    synchronous: { mode: synchronous() },
    oneStepOff: { mode: oneStepOff(), split: TRAINING_ON_HALF.assumed },
    asynchronous1: { mode: asynchronous({ staleness: 1 }), split: TRAINING_ON_HALF.assumed },
    asynchronous4: { mode: asynchronous({ staleness: 4 }), split: TRAINING_ON_HALF.assumed },
    asynchronous4Published: { mode: asynchronous({ staleness: 4 }), split: TRAINING_ON_HALF.published },
    partial: { mode: partial({ extraTasks: some(0.5), staleness: 4 }) },
    overSampleTasks: { mode: overSample({ tasks: some(0.25) }) },
    overSampleAttempts: { mode: overSample({ attempts: Math.max(1, Math.round(one.attempts / 4)) }) },
    tailRounds: { mode: tailRounds({ extraTasks: some(0.25) }) },
  };
  const alone = await measure(`${one.name}/rollout`, (seed) => rollOutBatch(one, { seed }));
  const trainMsPerToken = (1000 * TRAINING_SHARE) / alone.tokensPerSecond;
  for (const [name, { mode, split, byBatch = false }] of Object.entries(modes)) {
    await measure(`${one.name}/${name}`, (seed) =>
      trainInMode(one, {
        mode,
        seed,
        byBatch,
        steps: STEPS,
        servers: split ? one.servers / 2 : one.servers,
        trainMsPerToken: (split ?? 1) * trainMsPerToken,
      }),
    );
    const speed = (of: string) => figures[`${one.name}/${of}`]!.tokensPerSecond;
    if (name === 'synchronousByBatch' || name === 'synchronous') continue;
    const seconds = (of: string) => figures[`${one.name}/${of}`]!.seconds;
    ratios[`${one.name}/${name}`] = speed(name) / speed('synchronous');
    ratios[`${one.name}/${name}/steps`] = seconds('synchronous') / seconds(name);
  }
  ratios[`${one.name}/synchronousToByBatch`] =
    figures[`${one.name}/synchronous`]!.tokensPerSecond /
    figures[`${one.name}/synchronousByBatch`]!.tokensPerSecond;
}

/** By case: what is measured, and the two settings whose ratio the parameters move. */
const PARTS: readonly {
  readonly one: ScheduleCase;
  readonly run: (one: ScheduleCase) => Promise<void>;
  readonly slow?: Setting;
  readonly fast?: Setting;
}[] = [
  { one: CASES.turns3, run: compareTurns, slow: { byBatch: true }, fast: {} },
  { one: CASES.turns3Unlimited, run: compareRequestWithBatch },
  { one: CASES.turns5tools, run: compareTurns, slow: { byBatch: true }, fast: {} },
  { one: CASES.programs, run: comparePolicies, slow: {}, fast: POLICIES.longestFirst! },
  { one: CASES.modes, run: compareModes },
];

const began = performance.now();
for (const { one, run, slow, fast } of PARTS) {
  if (!chosen.includes(one.name)) continue;
  heading(one);
  if (flags.sensitivity !== 'only') await run(sized(one));
  if (slow && fast) await moveParameters(sized(one), slow, fast);
}
console.log(`\n${((performance.now() - began) / 1000).toFixed(0)} s to simulate, ${seeds.length} seeds`);
const rounded = (record: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, round(value)]));
const AIMS: Readonly<Record<string, () => Aim>> = {
  turns3: () => atLeast('3 turns: by batch over by request', ratios.turns3, 2.2),
  turns5tools: () => atLeast('5 turns with slow tools: by batch over by request', ratios.turns5tools, 3.3),
  programs: () => atLeast('coding agents: at once over programs', ratios['programs/programs'], 1.8),
  oracle: () => atMost('longestFirst over an oracle', ratios['programs/longestFirstToOracle'], 1.1),
  modes: () => atLeast('asynchronous(4) over synchronous', ratios['modes/asynchronous4'], 1),
};
conclude(
  Object.entries(AIMS).flatMap(([name, aim]) =>
    flags.sensitivity !== 'only' && chosen.includes(name === 'oracle' ? 'programs' : name) ? [aim()] : [],
  ),
  {
    ratios: rounded(ratios),
    figures: Object.fromEntries(
      Object.entries(figures).map(([name, one]) => [name, rounded(one as unknown as Record<string, number>)]),
    ),
    sensitivity,
  },
);

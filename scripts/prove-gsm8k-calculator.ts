/**
 * A real model learns GSM8K with a calculator, on one GPU: `npm run prove gsm8k-calculator -- --model DIR --url URL`.
 * DIR is Qwen2.5-Coder-1.5B-Instruct after `rollcall model mend`; at URL (one, or several with commas) vLLM serves it. Imitation of calls made from
 * GSM8K's annotations, then GRPO; the whole test set before, between and after, and once with a broken calculator.
 * Environment: GSM8K names the folder with train.jsonl and test.jsonl.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Group, servers, type Tool, train } from 'rollcall';
import { gateway, oneStepOff, synchronous } from 'rollcall/scheduling';
import { torch } from 'rollcall/torch';
import type { Problem } from '../recipes/gsm8k-calculator/problems.ts';
import {
  type Measured,
  measure,
  solutionsInWords,
  trainOptions,
  warmStart,
} from '../recipes/gsm8k-calculator/recipe.ts';
import { brokenCalculator, solver } from '../recipes/gsm8k-calculator/solver.ts';
import { readFlags } from './flags.ts';
import { atLeast, atMost, conclude } from './verdict.ts';

const flags = readFlags(
  {
    model: 'models/qwen2.5-coder-1.5b-mended',
    url: 'http://127.0.0.1:8100',
    engine: 'vllm',
    runs: 'runs/gsm8k-calculator',
    seed: '1',
    steps: '100',
    'tasks-per-step': '64',
    /** synchronous, or one-step-off: the next step is rolled out while this one is trained. */
    mode: 'one-step-off',
    /** The control: the model as it is learns to solve the problems in words. */
    'without-tool': false,
    /** 0: all that can be made. */
    demonstrations: '3584',
    /**
     * The model first solves so many training problems in words, and where it is right its own equations become the
     * demonstration's calls: GSM8K's own solutions are terse, and so is a model that imitates them alone.
     */
    'own-words': '3584',
    /** Test problems; 0: all 1,319. */
    test: '0',
    'skip-before': false,
    /** A folder after imitation, instead of imitating again. */
    'warm-start': '',
    /** GRPO ends after so many, as after Ctrl-C, and is measured. */
    'most-minutes': '20',
    'learning-rate': '4e-6',
    compile: false,
    fused: false,
    recompute: '1',
    /** Tokens that the trainer computes at once. */
    tokens: '16384',
    /** Weights go through the memory of the GPU that trainer and server share, not through files. */
    push: false,
    /** Requests without seeds: vLLM draws for each seeded request alone. */
    unseeded: false,
    /** `cpu` tries everything out without a GPU, with a small model and `--engine rollcall`. */
    device: '',
  },
  { steps: '2', 'tasks-per-step': '4', demonstrations: '64', 'own-words': '0', test: '16' },
);
const began = performance.now();
const say = (line: string) => console.error(`${((performance.now() - began) / 1000).toFixed(1)} s  ${line}`);
const count = Number(flags.test) || undefined;
const urls = flags.url.split(',');
const modes = { synchronous, 'one-step-off': oneStepOff };
const mode = modes[flags.mode as keyof typeof modes];
if (!mode) throw new Error(`--mode is ${flags.mode}; ${Object.keys(modes).join(' or ')} is needed`);
const trainer = torch({
  compile: flags.compile,
  fused: flags.fused,
  recompute: Number(flags.recompute),
  tokensPerRank: Number(flags.tokens),
  ...(flags.push && { push: urls }),
  ...(flags.device === 'cpu' && { device: 'cpu' }),
});
const fleet = servers({ urls, engine: flags.engine, http: { seeds: !flags.unseeded } });

const agentOf = (tools?: readonly Tool[]) => solver(flags['without-tool'] ? [] : tools);

/** Measures what the servers have; with `weights`, after loading those. */
async function measured(name: string, weights?: string, agent = agentOf()): Promise<Measured> {
  const server = gateway(await fleet.open(flags.model));
  try {
    if (weights !== undefined) await server.update({ kind: 'disk', version: 0, path: weights });
    const result = await measure(flags.model, server, { agent, count });
    say(`${name}: ${JSON.stringify(result)}`);
    return result;
  } finally {
    await server.close();
  }
}

/** Tokens that an update computes: the prompt of a group once, and everything after it. Without a difference of rewards none. */
function computedTokens(groups: readonly Group<Problem>[]): number {
  let tokens = 0;
  for (const { attempts } of groups) {
    if (new Set(attempts.map(({ reward }) => reward)).size === 1) continue;
    const segments = attempts.flatMap(({ trajectory }) => trajectory.segments);
    const prompts = segments.map(({ sampled }) => Math.max(0, sampled.indexOf(1)));
    tokens +=
      Math.max(0, ...prompts) + segments.reduce((sum, { ids }, at) => sum + ids.length - prompts[at]!, 0);
  }
  return tokens;
}

await mkdir(flags.runs, { recursive: true });
/** Solutions of training problems by the model as it is, where they are asked for. */
async function inWords(): Promise<Map<string, string> | undefined> {
  const asked = Number(flags['own-words']);
  if (asked === 0 || flags['without-tool'] || flags['warm-start']) return undefined;
  const server = gateway(await fleet.open(flags.model));
  try {
    return await solutionsInWords(flags.model, server, asked);
  } finally {
    await server.close();
  }
}

const imitationBegan = performance.now();
const written = await inWords();
if (written) say(`${written.size} training problems have a demonstration in the model's own words`);
const warm =
  flags['warm-start'] ||
  (flags['without-tool'] && flags.model) ||
  (await warmStart({
    model: flags.model,
    runDir: join(flags.runs, `warm-start-${flags.seed}`),
    trainer,
    seed: Number(flags.seed),
    ...(written && { written }),
    ...(Number(flags.demonstrations) > 0 && { count: Number(flags.demonstrations) }),
    onStep: say,
  }));
const imitationSeconds = (performance.now() - imitationBegan) / 1000;
const skipsBefore = flags['skip-before'];
const before = skipsBefore ? undefined : await measured('before'); // servers may have been starting until now
const beforeInWords = skipsBefore ? undefined : await measured('before, in words', undefined, solver([]));
const imitated = flags['without-tool'] ? undefined : await measured('after imitation', warm);

const options = await trainOptions(
  { model: warm, servers: fleet, trainer, runDir: join(flags.runs, `seed-${flags.seed}`) },
  {
    seed: Number(flags.seed),
    steps: Number(flags.steps),
    tasksPerStep: Number(flags['tasks-per-step']),
    learningRate: Number(flags['learning-rate']),
    mode: mode(),
    agent: agentOf(),
  },
);
const curve: Record<string, number | undefined>[] = [];
let after: Measured | undefined;
let broken: Measured | undefined;
let trainedSeconds = Number.NaN;
let interrupted = false;
process.once('SIGINT', () => {
  interrupted = true;
  say('ends after this step and measures; once more ends at once');
});
const optimizer = { ...options.optimizer, tokensPerMicroBatch: Number(flags.tokens) };
for await (const { step, metrics, groups, notices } of train({ ...options, optimizer })) {
  for (const notice of notices) say(notice);
  const seconds = (name: string) => metrics[`timing_s/${name}`];
  const point = {
    step,
    reward: metrics['critic/score/mean'],
    heldOut: Object.entries(metrics).find(([name]) => /^val-core\/.*reward\/mean@1$/.test(name))?.[1],
    correct: metrics['reward/correct/mean'],
    sampling: seconds('gen'),
    update: seconds('update_actor'),
    weights: seconds('update_weights'),
    whole: seconds('step'),
    tokens: computedTokens(groups),
    gap: metrics['training/rollout_probs_diff_mean'],
  };
  curve.push(point);
  say(JSON.stringify(point));
  const isOver = interrupted || performance.now() - began > 60_000 * Number(flags['most-minutes']);
  if (!isOver && step < Number(flags.steps)) continue;
  if (isOver) say(`stopped after step ${step}`);
  trainedSeconds = (performance.now() - began) / 1000;
  after = await measured('after GRPO');
  if (!flags['without-tool'])
    broken = await measured('with a broken calculator', undefined, agentOf([brokenCalculator]));
  break;
}
if (!after) throw new Error('GRPO took no step');

const median = (name: string) => {
  const values = curve.flatMap((point) => (point.step ? (point[name] ?? []) : [])).sort((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? Number.NaN;
};
const parameters = 1_543_714_304;
const utilisation = (6 * parameters * median('tokens')) / median('update') / 989e12;
await writeFile(join(flags.runs, `curve-${flags.seed}.json`), JSON.stringify(curve));
const ofTool = broken && [
  atLeast('accuracy on the test set, percent', 100 * after.accuracy, 68),
  atLeast('valid calls, percent', 100 * after.validCalls, 97),
  atLeast('answers that are the result of a call, percent of the solved', 100 * after.answerFromCall, 85),
  atLeast('points lost with a broken calculator', 100 * (after.accuracy - broken.accuracy), 25),
];
conclude(
  [
    ...(ofTool ?? []),
    atMost('minutes of imitation and GRPO', trainedSeconds / 60, 20),
    atMost('seconds for weights to reach the server', median('weights'), 0.6),
    atLeast('model FLOPs utilisation of the update, percent', 100 * utilisation, 45),
  ],
  {
    before,
    beforeInWords,
    ownWords: written?.size,
    imitated,
    after,
    broken,
    imitationSeconds,
    steps: curve.length - 1,
    seconds: Object.fromEntries(
      ['sampling', 'update', 'weights', 'whole'].map((name) => [name, median(name)]),
    ),
    tokensPerUpdate: median('tokens'),
    utilisation,
  },
);

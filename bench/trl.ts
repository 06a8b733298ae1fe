/**
 * Seconds of a GRPO step on one GPU, ours against TRL's GRPOTrainer: the same model, tasks in the same order, batch and
 * reward; one reply of at most 300 tokens and no tools. Both need the card whole, so each side has a run:
 * `npm run bench trl -- --side ours --model DIR --url URL`, where vLLM serves DIR at URL (several with commas), and, with that stopped,
 * `npm run bench trl -- --side trl --model DIR --python PATH`, with trl (and vllm, unless `--generation transformers`).
 * Environment: GSM8K names the folder with train.jsonl.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { arrayDataset, servers, toolLoop, train } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { torch } from 'rollcall/torch';
import { type Problem, problems } from '../recipes/gsm8k-calculator/problems.ts';
import { correct } from '../recipes/gsm8k-calculator/solver.ts';
import { readFlags } from '../scripts/flags.ts';
import { type Aim, atLeast, conclude, holds } from '../scripts/verdict.ts';

const flags = readFlags(
  {
    side: 'ours',
    model: 'models/qwen2.5-coder-1.5b',
    url: 'http://127.0.0.1:8100',
    engine: 'vllm',
    runs: 'runs/bench-trl',
    python: 'python3',
    generation: 'vllm',
    steps: '8',
    tasks: '32',
    attempts: '8',
    reply: '300',
    /** Trajectories that TRL computes at once in its update. */
    micro: '32',
    /** Tokens that ours computes at once. */
    tokens: '16384',
    recompute: false,
    compile: false,
    fused: false,
    /** Weights go through the memory of the GPU that trainer and server share. */
    push: false,
    /** Our requests without seeds, as TRL's are. */
    unseeded: false,
    device: '',
  },
  { steps: '3', tasks: '2', attempts: '4', reply: '24', micro: '4', tokens: '2048' },
);
const SYSTEM = 'Solve the problem step by step. End with "The answer is N.", where N is a number.';
const LEARNING_RATE = 3e-6;
const urls = flags.url.split(',');
const steps = Number(flags.steps);
const tasksPerStep = Number(flags.tasks);
const attemptsPerTask = Number(flags.attempts);

interface Step {
  readonly seconds: number;
  /** Tokens that were sampled. */
  readonly tokens: number;
  readonly reward: number;
}
interface Side {
  readonly steps: readonly Step[];
  readonly [figure: string]: unknown;
}

async function tasksInOrder(): Promise<Problem[]> {
  const rows: Problem[] = [];
  for await (const { row } of (await problems('train')).rows()) {
    rows.push(row);
    if (rows.length === steps * tasksPerStep) break;
  }
  return rows;
}

async function runOurs(tasks: readonly Problem[]): Promise<Side> {
  const runDir = join(flags.runs, 'ours');
  await rm(runDir, { recursive: true, force: true });
  const found: Step[] = [];
  let began = performance.now();
  for await (const { step, metrics } of train<Problem>({
    model: flags.model,
    runDir,
    servers: servers({ urls, engine: flags.engine, http: { seeds: !flags.unseeded } }),
    trainer: torch({
      recompute: flags.recompute ? 1 : 0,
      compile: flags.compile,
      fused: flags.fused,
      tokensPerRank: Number(flags.tokens),
      ...(flags.push && { push: urls }),
      ...(flags.device === 'cpu' && { device: 'cpu' }),
    }),
    tasks: arrayDataset(tasks, 'gsm8k'),
    order: { kind: 'sequential' },
    agent: toolLoop<Problem>({ system: SYSTEM, prompt: ({ question }) => question, tools: [] }),
    rewards: [correct],
    algorithm: grpo({ clip: [0.2, 0.28] }),
    steps,
    tasksPerStep,
    attemptsPerTask,
    concurrency: 1024,
    limits: { turns: 1, tokensPerReply: Number(flags.reply), contextTokens: 2048 },
    optimizer: { learningRate: LEARNING_RATE, weightDecay: 0, tokensPerMicroBatch: Number(flags.tokens) },
    checkpoints: { every: 0 },
  })) {
    const seconds = (performance.now() - began) / 1000;
    began = performance.now();
    if (step === 0) continue; // the run is open, and nothing was done yet
    const tokens = metrics['sampled_tokens/total'] ?? Number.NaN;
    found.push({ seconds, tokens, reward: metrics['critic/score/mean'] ?? Number.NaN });
    console.log(JSON.stringify({ step, ...found.at(-1), ...timings(metrics) }));
  }
  return { steps: found };
}

function timings(metrics: Readonly<Record<string, number>>) {
  const names = { sampling: 'gen', update: 'update_actor', weights: 'update_weights', whole: 'step' };
  return Object.fromEntries(
    Object.entries(names).map(([name, metric]) => [name, metrics[`timing_s/${metric}`]]),
  );
}

async function runTrl(tasks: readonly Problem[]): Promise<Side> {
  const file = join(flags.runs, 'tasks.jsonl');
  const lines = tasks.map(({ question, answer }) => JSON.stringify({ system: SYSTEM, question, answer }));
  await writeFile(file, `${lines.join('\n')}\n`);
  const words = Object.entries({
    model: flags.model,
    tasks: file,
    steps,
    attempts: attemptsPerTask,
    batch: tasksPerStep * attemptsPerTask,
    micro: flags.micro,
    reply: flags.reply,
    'learning-rate': LEARNING_RATE,
    generation: flags.generation,
  }).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const script = fileURLToPath(new URL('./peers/trl_grpo.py', import.meta.url));
  const child = spawn(flags.python, [script, ...words, ...(flags.recompute ? ['--recompute'] : [])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let last = '';
  for await (const line of createInterface({ input: child.stdout })) {
    console.log(line);
    if (line.startsWith('{')) last = line;
  }
  if (child.exitCode === null) await once(child, 'exit');
  if (child.exitCode !== 0) throw new Error(`${script} ended with ${child.exitCode}`);
  return JSON.parse(last) as Side;
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The first step warms up: compiled kernels, cuBLAS, connections. */
function figuresOf({ steps: [, ...later], ...about }: Side) {
  const seconds = median(later.map((step) => step.seconds));
  const tokens = median(later.map((step) => step.tokens));
  return { ...about, secondsPerStep: seconds, tokensPerStep: tokens, tokensPerSecond: tokens / seconds };
}

const sides = ['ours', 'trl'] as const;
const pathOf = (side: string) => join(flags.runs, `${side}.json`);
await mkdir(flags.runs, { recursive: true });
const run = { ours: runOurs, trl: runTrl }[flags.side];
if (!run) throw new Error(`--side is ${flags.side}; ours or trl is needed`);
const measured = await run(await tasksInOrder());
await writeFile(pathOf(flags.side), JSON.stringify(measured));
const aims: Aim[] = [holds(`${flags.side}: every step was taken`, measured.steps.length === steps)];
const figures = Object.fromEntries(
  sides
    .filter((side) => existsSync(pathOf(side)))
    .map((side) => [side, figuresOf(JSON.parse(readFileSync(pathOf(side), 'utf8')) as Side)]),
);
const { ours, trl } = figures;
if (ours && trl) {
  aims.push(
    atLeast("TRL's seconds per step over ours", trl.secondsPerStep / ours.secondsPerStep, 1.5),
    atLeast('our sampled tokens per second over its', ours.tokensPerSecond / trl.tokensPerSecond, 1.5),
  );
}
conclude(aims, figures);

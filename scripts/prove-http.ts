/**
 * The quick start's short variant over HTTP: `npm run prove http [-- --seed 1]`. The same warm start is trained by GRPO
 * in this process, then over two replicas of `rollcall serve`, then over two of which one is killed in the middle and
 * comes back. All three must give the same rewards and gradient norms step by step, and the same accuracy.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { measure } from '../examples/quickstart/measure.ts';
import { createProblems } from '../examples/quickstart/problems.ts';
import { quickstart } from '../examples/quickstart/quickstart.ts';
import { RECIPES, type Variant } from '../examples/quickstart/recipe.ts';
import { trainOptions } from '../examples/quickstart/train-options.ts';
import { loadChatFormat } from '../src/chat/model-files.ts';
import { embedded } from '../src/engine/embedded.ts';
import { servers } from '../src/options/servers.ts';
import type { TrainOptions } from '../src/options.ts';
import { train } from '../src/train.ts';
import { readFlags } from './flags.ts';
import { conclude, holds } from './verdict.ts';

const flags = readFlags({ seed: '1', variant: 'short', steps: '8', runs: 'runs/prove-http' }, { steps: '3' });
const seed = Number(flags.seed);
const steps = Number(flags.steps);
const variant = flags.variant as Variant;
const recipe = RECIPES[variant];
const say = (line: string) => console.error(line);

interface Curve {
  readonly rewards: number[];
  readonly gradNorms: number[];
  readonly accuracy: number;
  readonly failed: number;
  readonly seconds: number;
  readonly log: readonly string[];
}

/** GRPO from the warm start. `atStep` is called when the rollout of a step is half done. */
async function learn(
  name: string,
  engine: Pick<TrainOptions, 'servers' | 'trainer'>,
  log: readonly string[] = [],
  atStep: (step: number) => void = () => {},
): Promise<Curve> {
  const runDir = join(flags.runs, name);
  await rm(runDir, { recursive: true, force: true });
  const options = trainOptions({ seed, variant, steps, model: warm, runDir, engine });
  const rewards: number[] = [];
  const gradNorms: number[] = [];
  let failed = 0;
  const began = performance.now();
  for await (const { step, metrics, groups } of train({
    ...options,
    onProgress: ({ step, phase, done, total }) => {
      if (phase === 'rollout' && done === Math.floor(total / 2)) atStep(step);
    },
  })) {
    if (step === 0) continue;
    rewards.push(metrics['critic/score/mean']!);
    gradNorms.push(metrics['actor/grad_norm']!);
    failed += groups
      .flatMap(({ attempts }) => attempts)
      .filter(({ trajectory, reward }) => trajectory.end.kind === 'failed' || reward === undefined).length;
    say(`${name} ${step}/${steps}: reward ${rewards.at(-1)!.toFixed(4)}`);
  }
  const seconds = Math.round((performance.now() - began) / 1000);
  return {
    rewards,
    gradNorms,
    accuracy: await accuracyOf(join(runDir, 'checkpoints', `global_step_${steps}`)),
    failed,
    seconds,
    log,
  };
}

async function accuracyOf(model: string): Promise<number> {
  const [server] = await embedded().servers.open(model);
  try {
    const problems = createProblems('test', seed, recipe.problems.test);
    const format = await loadChatFormat(model);
    return (await measure('test', problems, { server: server!, format, seed })).score.accuracy;
  } finally {
    await server!.close();
  }
}

async function startReplica(port = 0): Promise<{ url: string; child: ChildProcess }> {
  const words = ['bin/rollcall.js', 'serve', '--model', warm, '--port', String(port), '--threads', '1'];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface(child.stdout)) {
    const url = /listening (\S+)/.exec(line)?.[1];
    if (url) return { url, child };
  }
  throw new Error('rollcall serve did not start');
}

async function over(name: string, kill: boolean): Promise<Curve> {
  const replicas = [await startReplica(), await startReplica()];
  const log: string[] = [];
  const far = servers({
    urls: replicas.map(({ url }) => url),
    engine: 'rollcall',
    log: (line) => log.push(line),
  });
  let back: Promise<void> | undefined;
  const killAndRestart = async () => {
    const { url, child } = replicas[1]!;
    child.kill('SIGKILL');
    await once(child, 'exit');
    replicas[1] = await startReplica(Number(new URL(url).port));
  };
  try {
    return await learn(name, { servers: far }, log, (step) => {
      if (kill && step === Math.ceil(steps / 2)) back ??= killAndRestart();
    });
  } finally {
    await back;
    for (const { child } of replicas) child.kill();
  }
}

const first = join(flags.runs, 'quickstart');
const warm = join(first, 'warm-start');
if (!(await readFile(join(warm, 'config.json')).catch(() => undefined))) {
  await quickstart({ seed, variant, runDir: first, say, run: async () => false });
}
const before = await accuracyOf(warm);
const near = await learn('process', embedded());
const far = await over('http', false);
const killed = await over('http-killed', true);
const same = (one: Curve) =>
  one.rewards.join() === near.rewards.join() &&
  one.gradNorms.join() === near.gradNorms.join() &&
  one.accuracy === near.accuracy &&
  one.failed === 0;
conclude(
  [
    holds(
      'every step has a gradient to compare',
      near.gradNorms.length === steps && near.gradNorms.every((norm) => norm > 0),
      near.gradNorms,
    ),
    holds('over HTTP every reward, gradient norm and the accuracy are those of one process', same(far)),
    holds('the same when a replica is killed and comes back', same(killed)),
  ],
  { seed, variant, before, near, far, killed },
);

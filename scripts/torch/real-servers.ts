/**
 * The calculator example on a real server on the CPU: trained by the embedded trainer, by the PyTorch one through files, and
 * by the PyTorch one from memory to memory through a process group (gloo). All must earn the same rewards.
 */
import { mkdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { trainOptions } from '../../examples/quickstart/train-options.ts';
import { embedded } from '../../src/engine/embedded.ts';
import { engineNamed } from '../../src/inference/engines.ts';
import { installedRelease } from '../../src/inference/installed-engine.ts';
import { startServers } from '../../src/inference/launch.ts';
import { launchCommands } from '../../src/inference/launch-commands.ts';
import { servers } from '../../src/options/servers.ts';
import type { TorchOptions } from '../../src/torch/torch.ts';
import { train } from '../../src/train.ts';
import type { TrainerFactory } from '../../src/training/trainer.ts';
import { smallModels } from '../servers/models.ts';
import { install, REAL_SERVERS, type RealServer } from '../servers/real-server.ts';
import { warmStart } from '../short-run.ts';
import { type Aim, atMost, holds } from '../verdict.ts';

const START_SECONDS = 600;

export interface ServerProofOptions {
  readonly engine: RealServer['engine'];
  readonly runs: string;
  readonly steps: number;
  readonly show: (aim: Aim) => void;
  /** The PyTorch trainer on the CPU. */
  readonly onCpu: (options: TorchOptions) => TrainerFactory;
}

interface Curve {
  readonly rewards: number[];
  readonly perStep: number[];
  /** Per step, the largest difference of probabilities between sampling and training. */
  readonly gaps: number[];
  /** Per step, seconds until the server had the new weights. */
  readonly weightSeconds: number[];
}

export async function proveOnServer(options: ServerProofOptions): Promise<Record<string, unknown>> {
  const real = REAL_SERVERS[options.engine];
  await install(real, console.log);
  await mkdir(options.runs, { recursive: true });
  const warm = await warmStart(options.runs, { seed: 1, variant: 'short' });
  const model = resolve(smallModels(warm, resolve(options.runs, 'models')).untied);
  const { url, stop } = await start(real, model, join(options.runs, options.engine, 'torch-logs'));
  try {
    return await compare(options, model, url);
  } finally {
    await stop();
  }
}

async function compare(
  { engine, runs, steps, show, onCpu }: ServerProofOptions,
  model: string,
  url: string,
): Promise<Record<string, unknown>> {
  const run = (name: string, trainer: TrainerFactory) =>
    rewardsOf({ engine, url, model, steps, trainer, runDir: join(runs, engine, name) });
  const pushBy = engine === 'vllm' ? 'group' : 'sglang';
  const expected = await run('embedded-trainer', embedded({ threads: 1 }).trainer);
  const curves = {
    files: await run('torch-files', onCpu({ ranks: 1 })),
    group: await run('torch-group', onCpu({ ranks: 2, push: [url], pushBy })),
  };
  for (const [way, found] of Object.entries(curves)) {
    const where = `the calculator on a real ${engine}, trained by PyTorch, weights by ${way}`;
    const [mean, error] = [meanOf(expected.rewards), errorOf(expected.rewards)];
    const apart = Math.abs(meanOf(found.rewards) - mean) / error;
    show(holds(`${where}: every attempt has a reward`, found.rewards.length === expected.rewards.length));
    show(atMost(`${where}: mean rewards differ from the embedded trainer's by standard errors of`, apart, 3));
    show(
      atMost(
        `${where}: probabilities differ between sampling and training by`,
        Math.max(...found.gaps),
        1e-3,
      ),
    );
  }
  const all = { embedded: expected, ...curves };
  return Object.fromEntries(
    Object.entries(all).map(([name, { perStep, weightSeconds }]) => [
      name,
      { rewards: perStep, weightSeconds },
    ]),
  );
}

async function rewardsOf(given: {
  readonly engine: string;
  readonly url: string;
  readonly model: string;
  readonly steps: number;
  readonly trainer: TrainerFactory;
  readonly runDir: string;
}): Promise<Curve> {
  const { engine, url, model, steps, trainer, runDir } = given;
  await rm(runDir, { recursive: true, force: true });
  const {
    validation: _,
    evaluation: __,
    ...options
  } = trainOptions({ seed: 1, variant: 'short', steps, model, runDir });
  const curve: Curve = { rewards: [], perStep: [], gaps: [], weightSeconds: [] };
  for await (const { step, metrics, groups } of train({
    ...options,
    trainer,
    servers: servers({ urls: [url], engine, log: console.log }),
    tasksPerStep: 8,
    attemptsPerTask: 4,
    checkpoints: { every: 100 },
  })) {
    if (step === 0) continue;
    const rewards = groups.flatMap(({ attempts }) => attempts.flatMap(({ reward }) => reward ?? []));
    curve.rewards.push(...rewards);
    curve.perStep.push(Number(meanOf(rewards).toFixed(3)));
    curve.gaps.push(metrics['training/rollout_probs_diff_max'] ?? Number.NaN);
    curve.weightSeconds.push(Number((metrics['timing_s/update_weights'] ?? Number.NaN).toFixed(2)));
    console.log(`${runDir} ${step}/${steps}: reward ${curve.perStep.at(-1)}, gap ${curve.gaps.at(-1)}`);
  }
  return curve;
}

async function start(real: RealServer, model: string, logDirectory: string) {
  const engine = engineNamed(real.engine, 'engine');
  const takesWeights =
    real.engine === 'vllm' ? ['--worker-extension-cls', 'rollcall_torch.vllm_extension.TakesWeights'] : [];
  const given = {
    replicas: 1,
    tensorParallel: 1,
    memoryShare: 0.5,
    logLevel: 'warning' as const,
    ...real.launch,
    program: real.program,
    flags: [...(real.launch.flags ?? []), ...takesWeights],
    environment: { ...real.launch.environment, PYTHONPATH: resolve('python') },
    portStart: await freePort(),
    model,
  };
  const commands = launchCommands(engine, given, process.env, await installedRelease(engine, real.program));
  const ready = async (url: string) => {
    const server = engine.connect({ url });
    try {
      return await server.ready();
    } finally {
      await server.close();
    }
  };
  const [server] = await startServers(commands, {
    startSeconds: START_SECONDS,
    ready,
    logDirectory,
    log: console.log,
  });
  return { url: server!.url, stop: () => server!.stop() };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Standard error of a difference of two means of so many rewards of 0 or 1. */
function errorOf(rewards: readonly number[]): number {
  const mean = meanOf(rewards);
  return Math.sqrt((mean * (1 - mean) * 2) / rewards.length);
}

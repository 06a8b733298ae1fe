/**
 * Rented training against a real Tinker server: SkyRL's, JAX on the CPU, installed from PyPI. It shows that log-probs and
 * steps are the embedded engine's on the same weights, whichever loss carries the gradients; that a run learns; and that a
 * server killed with -9 and started again loses nothing. Then TuFT's, which sums over tokens (its trainer alone, on the CPU).
 * `--stages` names some of: contracts, steps, sums, run, kill, tuft.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, reward, train } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { type ContractCase, inferenceServerContract, trainerContract } from 'rollcall/testing';
import { embedded } from '../src/engine/embedded.ts';
import { type TinkerOptions, tinker } from '../src/tinker/tinker.ts';
import type { Row, Trainer } from '../src/training/trainer.ts';
import { tinyModel } from '../test/tiny-model.ts';
import { readFlags } from './flags.ts';
import { installSkyrl, Skyrl } from './tinker/skyrl.ts';
import { alphaOf, installTuft, TUFT_KEY, Tuft } from './tinker/tuft.ts';
import { type Aim, atLeast, atMost, conclude, holds } from './verdict.ts';

const flags = readFlags(
  { stages: 'contracts,steps,sums,run,kill,tuft', steps: '24', port: '18710' },
  { stages: 'steps,sums,run,kill,tuft', steps: '20' },
);
const stages = flags.stages.split(',');
const folder = mkdtempSync(join(tmpdir(), 'rollcall-prove-tinker-'));
const model = await tinyModel();
const lora = { rank: 4 };
const aims: Aim[] = [];
const figures: Record<string, unknown> = {};
const show = (aim: Aim) => {
  console.log(`${aim.passed ? 'reached' : 'MISSED '}  ${aim.aim}: ${JSON.stringify(aim.measured)}`);
  aims.push(aim);
};
const say = (line: string) => console.log(line);

const rent = (server: { readonly url: string }, more: Partial<TinkerOptions> = {}) =>
  tinker({ url: server.url, model, lora, server: 'skyrl-jax', log: say, ...more });

let place = 0;
async function withServer<T>(work: (server: Skyrl) => Promise<T>, tokenSums = false): Promise<T> {
  const directory = join(folder, `server-${place}`);
  const server = new Skyrl({ model, directory, port: Number(flags.port) + place++, tokenSums });
  await server.start();
  try {
    return await work(server);
  } finally {
    await server.kill();
  }
}

/** Of both kinds of tokens: many and few targets, in rows of different lengths. */
const row = (ids: readonly number[], from: number): Row => ({
  ids: Int32Array.from(ids),
  targets: Uint8Array.from(ids, (_, at) => (at >= from ? 1 : 0)),
});
const PASSES = [
  [row([72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100], 3), row([97, 98], 1)],
  [row([49, 43, 50, 61, 51], 4), row([10, 11, 12, 13, 14, 15, 16, 17], 2)],
];
const STEPS = 3;
/** An epsilon far above the gradient makes Adam's step as long as the gradient, so that a wrong factor is seen. */
const ADAM = { learningRate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 100, weightDecay: 0.01, clipNorm: 0 };

const scoreOf = async (trainer: Trainer) => {
  const { logprob } = await trainer.score(PASSES.flat(), { temperature: 1, outputs: ['logprob'] });
  return logprob!.flatMap((values) => [...values]);
};

/** Steps on a made-up loss whose gradient differs from token to token and depends on the log-probs. */
async function trained(trainer: Trainer): Promise<{ logprobs: number[]; norms: number[] }> {
  const norms: number[] = [];
  for (let step = 1; step <= STEPS; step++) {
    for (const rows of PASSES) {
      const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
      const slope = (logprob: number, at: number) => Math.cos(step + at) - 2 * Math.exp(logprob);
      await pass.backward({ logprob: pass.outputs.logprob!.map((values) => values.map(slope)) });
    }
    norms.push((await trainer.optimStep(ADAM)).gradNorm);
  }
  return { logprobs: await scoreOf(trainer), norms };
}

const farthest = (one: readonly number[], other: readonly number[]) =>
  one.reduce((most, value, at) => Math.max(most, Math.abs(value - other[at]!)), 0);

const SKYRL = { alpha: 32, tellsNorms: true };

/** The server's steps against the embedded engine's, both from the adapter that the server began with. */
async function compareSteps(
  server: { readonly url: string },
  way: string,
  more: Partial<TinkerOptions>,
  { alpha, tellsNorms }: { readonly alpha: number; readonly tellsNorms: boolean } = SKYRL,
): Promise<void> {
  const rented = rent(server, more);
  const far = await rented.open('policy', model);
  const near = await embedded({ threads: 1, lora: { ...lora, alpha } }).trainer.open('policy', model);
  try {
    const begin = join(folder, `adapter-${place++}`);
    await far.save(begin);
    await near.load(begin);
    const before = await scoreOf(near);
    show(
      atMost(
        `${way}: log-probs before a step against the embedded engine's`,
        farthest(before, await scoreOf(far)),
        1e-5,
      ),
    );
    const [expected, found] = [await trained(near), await trained(far)];
    const moved = farthest(before, expected.logprobs);
    show(atLeast(`${way}: log-probs moved in ${STEPS} steps by`, moved, 0.1));
    show(
      atMost(
        `${way}: log-probs after them against the embedded engine's`,
        farthest(expected.logprobs, found.logprobs),
        1e-5,
      ),
    );
    const ratios = found.norms.map((norm, at) => Math.abs(norm / expected.norms[at]! - 1));
    const norms = `${way}: norm of the gradient against the embedded engine's, relative`;
    if (tellsNorms) show(atMost(norms, Math.max(...ratios), 1e-5));
    const home = join(folder, `adapter-${place++}`);
    await far.save(home);
    await near.load(home);
    show(
      atMost(
        `${way}: log-probs of the trained adapter, brought home`,
        farthest(await scoreOf(near), await scoreOf(far)),
        1e-5,
      ),
    );
  } finally {
    await Promise.all([far.close(), near.close()]);
  }
}

async function contracts(server: Skyrl): Promise<void> {
  const rented = rent(server);
  const kept = await rented.open('policy', model);
  const broken: string[] = [];
  const check = async (cases: readonly ContractCase[]) => {
    for (const { name, run } of cases) {
      await run().catch((error: Error) => broken.push(`${name}: ${error.message}`));
    }
    return cases.length;
  };
  const rules =
    (await check(await trainerContract(() => rented.open('policy', model), { vocabulary: 264 }))) +
    (await check(
      await inferenceServerContract(async () => (await rented.servers.open(model))[0]!, {
        update: (version) => kept.publish(version),
      }),
    ));
  await kept.close();
  figures['rules'] = rules;
  show(holds(`the ${rules} rules of both ports hold on the real server`, broken.length === 0, broken));
}

interface Letter {
  readonly letter: string;
}
const TASKS = ['m', 'n', 'o', 'p'];

/** Mean reward of each step; `during` is called when a step has ended. */
async function learn(
  server: Skyrl,
  name: string,
  during: (step: number) => void = () => {},
): Promise<number[]> {
  const rented = rent(server);
  const rewards: number[] = [];
  for await (const report of train<Letter>({
    model,
    runDir: join(folder, name),
    trainer: rented,
    servers: rented.servers,
    tasks: arrayDataset(TASKS.map((letter) => ({ letter }))),
    agent: agent<Letter>(async ({ task, model: policy }) => {
      const chat = policy.chat();
      chat.user(task.letter);
      await chat.sample();
    }),
    rewards: [
      reward<Letter>('before', ({ task, trajectory: { text } }) => {
        return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
      }),
    ],
    algorithm: grpo(),
    steps: Number(flags.steps),
    tasksPerStep: 4,
    attemptsPerTask: 8,
    limits: { tokensPerReply: 8 },
    optimizer: { learningRate: 0.02, clipNorm: 0 },
    checkpoints: { every: 4 },
  })) {
    if (report.step > 0) {
      rewards.push(report.metrics['critic/score/mean']!);
      say(
        `${name}, step ${report.step}: reward ${rewards.at(-1)!.toFixed(3)}, ${report.seconds.toFixed(0)} s`,
      );
      figures['tokens'] = Object.fromEntries(
        Object.entries(report.metrics).filter(([metric]) => metric.startsWith('service/')),
      );
    }
    during(report.step);
  }
  return rewards;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

async function learns(server: Skyrl): Promise<void> {
  const undisturbed = await learn(server, 'undisturbed');
  figures['rewards'] = undisturbed;
  const rise = mean(undisturbed.slice(-3)) - mean(undisturbed.slice(0, 3));
  show(atLeast('a GRPO run raises the mean reward by', rise, 0.15));
  if (!stages.includes('kill')) return;
  let kills = 0;
  const restarts: Promise<void>[] = [];
  const killAfter = (milliseconds: number) =>
    setTimeout(() => {
      kills++;
      restarts.push(server.kill().then(() => server.start()));
    }, milliseconds);
  const disturbed = await learn(server, 'killed', (step) => {
    if (step === 1) killAfter(0); // as the next step begins to sample
    if (step === 3) killAfter(3000); // somewhere in the step
  });
  await Promise.all(restarts);
  figures['kills'] = kills;
  show(holds('two kill -9 of the server were made', kills === 2, kills));
  show(atMost('rewards of every step against the run without kills', farthest(disturbed, undisturbed), 1e-9));
}

/** The head has no adapter, because the embedded engine knows none there. TuFT tells no norm of a gradient. */
async function tuft(): Promise<void> {
  installTuft(say);
  const server = new Tuft({ model, directory: join(folder, 'tuft'), port: Number(flags.port) + 90 });
  process.env['TINKER_API_KEY'] = TUFT_KEY; // it knows its users by their keys
  await server.start();
  try {
    await compareSteps(
      server,
      'weights of cross_entropy on TuFT',
      { server: 'tuft', lora: { ...lora, unembedding: false } },
      { alpha: alphaOf(lora.rank), tellsNorms: false },
    );
  } finally {
    await server.stop();
    delete process.env['TINKER_API_KEY'];
  }
}

try {
  if (stages.some((stage) => stage !== 'tuft')) installSkyrl(say);
  if (stages.includes('steps') || stages.includes('contracts') || stages.includes('run')) {
    await withServer(async (server) => {
      if (stages.includes('steps')) {
        await compareSteps(server, 'importance_sampling on the averaging server', {});
        await compareSteps(server, 'ppo on the averaging server', { loss: 'ppo' });
      }
      if (stages.includes('contracts')) await contracts(server);
      if (stages.includes('run')) await learns(server);
    });
  }
  if (stages.includes('sums')) {
    await withServer(
      (server) =>
        compareSteps(server, 'weights of cross_entropy on the summing server', { server: 'skyrl-torch' }),
      true,
    );
  }
  if (stages.includes('tuft')) await tuft();
  conclude(aims, figures);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

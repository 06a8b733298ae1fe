/**
 * A run whose servers, and then whose trainer, are on another host behind a bad network: two network namespaces, and between them a
 * link in user space that delays, drops and cuts packets. Clean, with loss and delay, cut for half a minute in the middle of
 * a rollout, cut while weights are sent, and (`torch`) cut while the PyTorch trainer on the other host computes: the run
 * waits, goes on, and earns what it earns on a clean link. Needs root.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { defaultPython, packageFolder } from '../src/torch/environment.ts';
import { verifyRun } from '../src/watch/verify-run.ts';
import { readFlags } from './flags.ts';
import {
  ADDRESS,
  hasNetem,
  type LinkCounts,
  type LinkState,
  openTwoHosts,
  type TwoHosts,
  whatIsMissing,
} from './network/two-hosts.ts';
import { warmStart } from './short-run.ts';
import { type Aim, atLeast, conclude, concludeFailed, holds } from './verdict.ts';

const flags = readFlags(
  { runs: 'runs/prove-network', steps: '6', cut: '30', loss: '0.02', delay: '0.04', parts: 'servers,torch' },
  { steps: '3' },
);
const steps = Number(flags.steps);
const cutSeconds = Number(flags.cut);
const bad: LinkState = { loss: Number(flags.loss), delay: Number(flags.delay) };
const runs = resolve(flags.runs);
const START_SECONDS = 120;
const MINUTES_PER_RUN = 10;
/** The step in which the link is cut. */
const DISTURBED = 2;

interface Told {
  readonly rewards: number[];
  readonly norms: number[];
  readonly failed: number;
  readonly seconds: number[];
  readonly log: string[];
  readonly link: LinkCounts;
}

const missing = whatIsMissing();
if (missing !== undefined) concludeFailed(`two hosts cannot be made here: ${missing}`);
else await prove();

async function prove(): Promise<void> {
  const model = await warmStart(runs, { seed: 1, variant: 'short' });
  const aims: Aim[] = [];
  const figures: Record<string, unknown> = {};
  for (const part of flags.parts.split(',')) {
    const trainer = part === 'torch';
    if (trainer && !existsSync(defaultPython())) throw new Error('npx rollcall torch install comes first');
    const take = async (name: string, disturbance: Disturbance = {}) => {
      const told = await learn(`${part}-${name}`, model, trainer, disturbance);
      figures[`${part}, ${name}`] = told;
      return told;
    };
    const clean = await take('clean');
    aims.push(
      holds(
        `${part}: on a clean link it takes its ${steps} steps`,
        clean.norms.length === steps && clean.norms.every((norm) => norm > 0),
        clean.rewards,
      ),
    );
    const same = (what: string, told: Told) =>
      aims.push(
        holds(
          `${part}, ${what}: rewards, gradient norms and versions are those of the clean link, no attempt is lost`,
          told.rewards.join() === clean.rewards.join() &&
            told.norms.join() === clean.norms.join() &&
            told.failed === 0,
          { rewards: told.rewards, log: told.log.length },
        ),
      );
    const felt = (what: string, told: Told) =>
      aims.push(
        atLeast(
          `${part}, ${what}: the disturbed step takes longer by seconds`,
          told.seconds[DISTURBED - 1]! - clean.seconds[DISTURBED - 1]!,
          0.8 * cutSeconds,
        ),
      );
    if (!trainer) {
      const lossy = await take('loss', { all: bad });
      same('loss and delay', lossy);
      aims.push(atLeast(`${part}, loss and delay: packets lost`, lossy.link.lost, 20));
    }
    for (const moment of trainer ? (['training'] as const) : (['rollout', 'sync'] as const)) {
      const cut = await take(`cut-${moment}`, { cut: moment });
      same(`cut for ${cutSeconds} s in ${moment}`, cut);
      felt(`cut in ${moment}`, cut);
    }
  }
  conclude(aims, figures);
}

interface Disturbance {
  /** For the whole run. */
  readonly all?: LinkState;
  /** When the link is cut. */
  readonly cut?: 'rollout' | 'sync' | 'training';
}

/** A run on the near host; servers, and the trainer where asked, are on the far one. */
async function learn(
  name: string,
  model: string,
  trainer: boolean,
  { all, cut }: Disturbance,
): Promise<Told> {
  const runDir = join(runs, name);
  await rm(runDir, { recursive: true, force: true });
  const hosts = await openTwoHosts();
  const key = randomBytes(18).toString('hex');
  const env = {
    ...process.env,
    ROLLCALL_API_KEY: key,
    ROLLCALL_TORCH_TOKEN: key,
    PYTHONPATH: packageFolder(),
  };
  const told = {
    rewards: [] as number[],
    norms: [] as number[],
    failed: 0,
    seconds: [] as number[],
    log: [] as string[],
  };
  try {
    console.error(
      `${name}${hasNetem() ? ' (the kernel has netem; the link in user space is used all the same)' : ''}`,
    );
    const urls = await startServers(hosts, model, env);
    if (trainer) {
      const words = [
        '-m',
        'torch.distributed.run',
        '--standalone',
        '--nproc-per-node=2',
        '-m',
        'rollcall_torch',
      ];
      const more = ['--host', '0.0.0.0', '--port', '29600', '--device', 'cpu', '--threads', '1'];
      hosts.start('far', [defaultPython(), ...words, ...more], { env, stdio: 'ignore' });
    }
    if (all) await hosts.set(all);
    const at = trainer ? [`tcp://${ADDRESS.far}:29600`] : [];
    const words = [
      '--import',
      './bin/register.js',
      'scripts/network/run.ts',
      model,
      runDir,
      String(steps),
      urls.join(','),
      ...at,
    ];
    const run = hosts.start('near', [process.execPath, ...words], {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const limit = setTimeout(() => run.kill('SIGKILL'), MINUTES_PER_RUN * 60_000);
    let isCut = false;
    const cutNow = async () => {
      isCut = true;
      await hosts.set({ cut: true });
      console.error(`${name}: the link is cut for ${cutSeconds} s`);
      wait(1000 * cutSeconds).then(() => hosts.set({ cut: false })); // while the run waits
    };
    for await (const line of createInterface({ input: run.stdout! })) {
      const { moment, step, metrics, log } = JSON.parse(line) as Line;
      if (moment === cut && cut !== undefined && step === DISTURBED && !isCut) await cutNow();
      if (moment === 'sync') run.stdin!.write('\n');
      if (log !== undefined) told.log.push(log);
      if (metrics === undefined) continue;
      told.rewards.push(metrics['critic/score/mean']!);
      told.norms.push(metrics['actor/grad_norm']!);
      for (const [end, count] of Object.entries(metrics))
        if (end.startsWith('ends/failed')) told.failed += count;
      told.seconds.push(Math.round(10 * metrics['timing_s/step']!) / 10);
    }
    clearTimeout(limit);
    told.failed += (await verifyRun(runDir)).filter(({ faults }) => faults.length > 0).length;
    return { ...told, link: await hosts.set({}) };
  } finally {
    await hosts.stop();
  }
}

interface Line {
  readonly moment?: string;
  readonly step?: number;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly log?: string;
}

async function startServers(hosts: TwoHosts, model: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const words = [
    process.execPath,
    'bin/rollcall.js',
    'serve',
    '--model',
    model,
    '--host',
    '0.0.0.0',
    '--allow-updates',
  ];
  const child = hosts.start('far', [...words, '--replicas', '2', '--threads', '1'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const late = setTimeout(() => child.kill('SIGKILL'), 1000 * START_SECONDS);
  const urls: string[] = [];
  for await (const line of createInterface({ input: child.stdout! })) {
    const port = /listening http:\S+:(\d+)/.exec(line)?.[1];
    if (port !== undefined) urls.push(`http://${ADDRESS.far}:${port}`);
    if (urls.length === 2) break;
  }
  clearTimeout(late);
  if (urls.length < 2) throw new Error('the servers of the far host did not start');
  return urls;
}

/** What can happen to a job that nobody has asked for: its time is up, a process of it is killed, a node is lost. */
import { type Aim, holds } from '../verdict.ts';
import type { Cluster } from './cluster.ts';

/** A job of the proof, and what the proof can do with it. */
export interface Job {
  readonly id: string;
  readonly cluster: Cluster;
  slurm(program: string, ...words: string[]): string;
  /** What the job's script has said so far. */
  log(): Promise<string>;
  steps(): Promise<number>;
  until(what: string, holds: () => Promise<boolean>): Promise<void>;
  ended(): Promise<void>;
  say(line: string): void;
}

const SERVER = /^\S*node \S*rollcall\.js serve/;
const RANK = /^\S*python\S* (-u )?-m rollcall_torch/;
const CONTROL = /^\S*node \S*rollcall\.js train/;

/** The limit is drawn in once the run is under way, so that Slurm's signal comes while there is something to save. */
export async function timeLimit(job: Job): Promise<Aim[]> {
  await job.until('step 1', async () => (await job.steps()) >= 1);
  const elapsed = secondsOf(job.slurm('squeue', '--noheader', '--format=%M', '--job', job.id));
  const minutes = Math.ceil((elapsed + 30) / 60);
  job.slurm('scontrol', 'update', `JobId=${job.id}`, `TimeLimit=${minutes}`);
  job.say(`${elapsed} s old, the job has ${minutes} minutes`);
  const warned = () => job.log().then((log) => /wants the nodes back: saving/.test(log));
  await job.until('the signal of the time limit', warned);
  job.slurm('scontrol', 'update', `JobId=${job.id}`, 'TimeLimit=60');
  const saved = await job.steps();
  await job.ended();
  const log = await job.log();
  const starts = startsOf(log);
  const continuedAt = Number(/step\s+(\d+)/.exec(log.slice(log.indexOf('--resume')))?.[1]);
  return [
    holds(
      'warned of its time limit, the job saves itself, is requeued and started a second time, with --resume',
      starts.length === 2 && starts[1]!.includes('--resume'),
      { starts, saved, continuedAt },
    ),
  ];
}

/** SIGKILL of a server, a rank and the control plane, one after another, each in the middle of a step. */
export async function kills(job: Job): Promise<Aim[]> {
  const blows = [
    { what: 'a server', command: SERVER, told: /server-\d ended with \d+; it is started again/ },
    { what: 'a trainer rank', command: RANK, told: /trainer ended with \d+; it is started again/ },
    { what: 'the control plane', command: CONTROL, told: /the control plane ended with 137; it is started/ },
  ];
  const seconds: Record<string, number> = {};
  await job.until('step 1', async () => (await job.steps()) >= 1);
  for (const { what, command, told } of blows) {
    const before = await job.steps();
    const [found] = job.cluster.find(command);
    if (!found) throw new Error(`${what} was not found in any node`);
    process.kill(found.pid, 'SIGKILL');
    const began = performance.now();
    job.say(`SIGKILL: ${what}, process ${found.pid} of ${found.node}`);
    await job.until(`the step after ${what} was killed`, async () => (await job.steps()) > before);
    // A run can end a step without that server; the trainer and the control plane it cannot do without.
    await job.until('word of it', async () => told.test(await job.log()));
    seconds[what] = Math.round((performance.now() - began) / 1000);
  }
  await job.ended();
  const log = await job.log();
  return [
    ...blows.map(({ what, told }) =>
      holds(`${what} killed: the job says so and starts it again`, told.test(log), seconds[what]),
    ),
    holds('the job itself was started once', startsOf(log).length === 1),
  ];
}

/** The node of the control plane goes without a word. Slurm finds it out, and starts the job on those that are left. */
export async function lostNode(job: Job): Promise<Aim[]> {
  await job.until('step 3', async () => (await job.steps()) >= 3);
  const { node } = job.cluster.find(CONTROL)[0]!;
  job.cluster.lose(node);
  job.say(`${node} is lost`);
  const began = performance.now();
  await job.until('the second start', async () => startsOf(await job.log()).length === 2);
  const seconds = Math.round((performance.now() - began) / 1000);
  await job.ended();
  const starts = startsOf(await job.log());
  return [
    holds(
      'a node is lost: Slurm requeues the job, which resumes on other nodes',
      starts.length === 2 && starts[1]!.includes('--resume') && !starts[1]!.includes(`on ${node},`),
      { starts, seconds },
    ),
  ];
}

const startsOf = (log: string): readonly string[] => log.match(/start 1 on .*/g) ?? [];

/** Of Slurm's `[[days-]hours:]minutes:seconds`. */
const secondsOf = (text: string) =>
  text
    .trim()
    .split(/[-:]/)
    .reduce((sum, part) => 60 * sum + Number(part), 0);

/**
 * A Slurm cluster on this machine: slurmctld and one slurmd for each node, from Debian's packages. Each node is a network
 * namespace with its own host name and address, so that an address of loopback reaches nobody else. Everything is in one folder
 * and ends with `stop()`. Needs root.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';

export interface Cluster {
  readonly nodes: readonly string[];
  /** For Slurm's commands. */
  readonly environment: Readonly<Record<string, string>>;
  /** Processes of the nodes by their command lines. */
  find(command: RegExp): readonly { readonly pid: number; readonly node: string }[];
  /** As if its plug were pulled: no connection is closed, and nothing on it runs on. It does not come back. */
  lose(node: string): void;
  stop(): Promise<void>;
}

const BRIDGE = 'rollcall0';
const NETWORK = '10.77.0';
const HEAD = 'rollcall-head';
const SECONDS_TO_START = 60;
/** A node that does not answer for so long is down. */
const SECONDS_UNTIL_LOST = 20;
/** Of each node, in name only: Slurm counts them and tells steps which they have. */
const GPUS = 4;

/** What this machine lacks for it, in words; undefined: nothing. */
export function whatIsMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  for (const program of ['slurmctld', 'slurmd', 'sbatch', 'munged', 'ip', 'nsenter', 'unshare']) {
    if (!isThere(program))
      return `there is no ${program}: apt-get install slurm-wlm munge iproute2 util-linux`;
  }
  try {
    execFileSync('ip', ['netns', 'add', 'rollcall-try'], { stdio: 'ignore' });
    execFileSync('ip', ['netns', 'del', 'rollcall-try']);
    return undefined;
  } catch {
    return 'network namespaces are not permitted here';
  }
}

export async function startCluster(folder: string, count: number): Promise<Cluster> {
  const nodes = Array.from({ length: count }, (_, at) => `rollcall${at + 1}`);
  const address = (at: number) => `${NETWORK}.${at + 11}`;
  const children: ChildProcess[] = [];
  mkdirSync(folder, { recursive: true });
  const environment = { SLURM_CONF: join(folder, 'slurm.conf') };

  /** In a namespace of files and host name of its own, and with `at` in the network of that node. */
  const daemon = (name: string, words: readonly string[], at?: string) => {
    const log = openSync(join(folder, `${name}.out`), 'a');
    const own = [
      `hostname ${name}`,
      `mount --bind ${join(folder, 'hosts')} /etc/hosts`,
      `mount --bind ${join(folder, 'resolv.conf')} /etc/resolv.conf`,
      'exec "$@"',
    ].join(' && ');
    const inside = ['unshare', '--mount', '--uts', 'bash', '-c', own, 'daemon', ...words];
    const [program, ...rest] = at === undefined ? inside : ['nsenter', `--net=/run/netns/${at}`, ...inside];
    const child = spawn(program!, rest, {
      env: { ...process.env, ...environment },
      stdio: ['ignore', log, log],
    });
    children.push(child);
    return child;
  };

  const stop = async () => {
    for (const child of children.reverse()) await end(child);
    for (const node of nodes) {
      for (const pid of processesOf(node)) tryKill(pid); // what a lost daemon has left
      tryRun('ip', ['netns', 'del', node]);
    }
    tryRun('ip', ['link', 'del', BRIDGE]);
    rmSync(folder, { recursive: true, force: true });
  };

  try {
    ip(`link add ${BRIDGE} type bridge`);
    ip(`addr add ${NETWORK}.1/24 dev ${BRIDGE}`);
    ip(`link set ${BRIDGE} up`);
    for (const [at, node] of nodes.entries()) {
      ip(`netns add ${node}`);
      ip(`link add v-${node} type veth peer name eth0 netns ${node}`);
      ip(`link set v-${node} master ${BRIDGE} up`);
      ip(`-n ${node} addr add ${address(at)}/24 dev eth0`);
      ip(`-n ${node} link set eth0 up`);
      ip(`-n ${node} link set lo up`);
      mkdirSync(join(folder, 'spool', node), { recursive: true });
    }
    const hosts = [
      `127.0.0.1 localhost`,
      `${NETWORK}.1 ${HEAD}`,
      ...nodes.map((node, at) => `${address(at)} ${node}`),
    ];
    writeFileSync(join(folder, 'hosts'), `${hosts.join('\n')}\n`);
    writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\n'); // nobody: refused at once
    writeFileSync(environment.SLURM_CONF, configuration(folder, nodes, address));
    for (let gpu = 0; gpu < GPUS; gpu++) execFileSync('mknod', [join(folder, `gpu${gpu}`), 'c', '1', '3']);
    writeFileSync(join(folder, 'gres.conf'), `Name=gpu File=${folder}/gpu[0-${GPUS - 1}]\n`);
    writeFileSync(join(folder, 'munge.key'), randomBytes(128), { mode: 0o600 });
    mkdirSync(join(folder, 'state'), { recursive: true });
    const files = [
      'key-file munge.key',
      'socket munge.socket',
      'pid-file munge.pid',
      'log-file munge.log',
      'seed-file munge.seed',
    ];
    daemon('munge', [
      ...['munged', '--foreground', '--force'],
      ...files.flatMap((pair) => {
        const [flag, name] = pair.split(' ');
        return [`--${flag}`, join(folder, name!)];
      }),
    ]);
    await wait(1000);
    daemon(HEAD, ['slurmctld', '-D']);
    await wait(1000);
    for (const node of nodes) daemon(node, ['slurmd', '-D', '-N', node], node);
    for (let second = 0; ; second++) {
      const idle = tryRun('sinfo', ['--noheader', '--format=%t %D'], environment);
      if (idle.split('\n').some((line) => line === `idle ${count}`)) break;
      if (second > SECONDS_TO_START) throw new Error(`the nodes did not come up; sinfo says: ${idle}`);
      await wait(1000);
    }
    const find = (command: RegExp) =>
      nodes.flatMap((node) =>
        processesOf(node)
          .filter((pid) => command.test(commandOf(pid)))
          .map((pid) => ({ pid, node })),
      );
    const lose = (node: string) => {
      ip(`-n ${node} link set eth0 down`);
      for (const pid of processesOf(node)) tryKill(pid);
    };
    return { nodes, environment, find, lose, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Two partitions: jobs of `urgent` take the nodes of jobs of `patient`, which are warned, saved and requeued. */
const configuration = (folder: string, nodes: readonly string[], address: (at: number) => string) => `
ClusterName=rollcall
SlurmctldHost=${HEAD}(${NETWORK}.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=${folder}/munge.socket,cred_expire=15
CredType=cred/munge
MailProg=/bin/true
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool/%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd-%n.pid
SlurmctldLogFile=${folder}/slurmctld.log
SlurmdLogFile=${folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=5,sched_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
MinJobAge=3600
ReturnToService=2
SlurmdTimeout=${SECONDS_UNTIL_LOST}
GresTypes=gpu
${nodes.map((node, at) => `NodeName=${node} NodeAddr=${address(at)} CPUs=2 Gres=gpu:${GPUS} State=UNKNOWN`).join('\n')}
PartitionName=patient Nodes=ALL Default=YES PriorityTier=1 GraceTime=120 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 State=UP
`;

const ip = (words: string) => execFileSync('ip', words.split(' '));

function isThere(program: string): boolean {
  return tryRun('bash', ['-c', `command -v ${program}`]) !== '';
}

function tryRun(program: string, words: readonly string[], environment: object = {}): string {
  try {
    const env = { ...process.env, ...environment };
    return execFileSync(program, words, {
      encoding: 'utf8',
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return '';
  }
}

const processesOf = (node: string) =>
  tryRun('ip', ['netns', 'pids', node]).split('\n').filter(Boolean).map(Number);

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return ''; // it has ended
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const killed = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await exited;
  clearTimeout(killed);
}

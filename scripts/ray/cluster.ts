/**
 * A Ray cluster on this machine, and the processes below it. Each node is a raylet with resources of its own in a network
 * namespace, with its own host name and address, so that an address of loopback reaches nobody else. Needs root.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { realClock, sleep } from '../../src/lib/clock.ts';

const RELEASE = '2.60.0';
const BRIDGE = 'rollcall-ray';
const NETWORK = '10.78.0';
const PORT = 6379;
const DASHBOARD_PORT = 8265;
const START_SECONDS = 300;
const MOST_STARTS = 3;
/** Ray 2.60 asks for a token unless told not to, and would start what the run consists of with a niceness of 15. */
const SETTINGS = { RAY_AUTH_MODE: 'disabled', RAY_USAGE_STATS_ENABLED: '0', RAY_worker_niceness: '0' };
const clock = realClock();

/** Ray from PyPI in a virtual environment, made once. */
export function installRay(say: (line: string) => void): string {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'rollcall', 'ray');
  const bin = join(folder, 'bin');
  if (existsSync(join(bin, 'ray'))) return bin;
  say(`installing ray ${RELEASE} into ${folder}`);
  for (const words of [
    ['python3', '-m', 'venv', folder],
    [join(bin, 'pip'), 'install', '-q', `ray[default]==${RELEASE}`],
  ]) {
    const { status } = spawnSync(words[0]!, words.slice(1), { stdio: ['ignore', 2, 2] });
    if (status !== 0) throw new Error(`${words.join(' ')} ended with ${status}`);
  }
  return bin;
}

export interface ClusterOptions {
  /** Folder of `ray`. */
  readonly bin: string;
  readonly folder: string;
  /** Logical CPUs of each node; the first is the head. */
  readonly cpus: readonly number[];
  /** A folder that every node has for itself: a mount of its own, so that nodes share no disk there. */
  readonly ownDisk?: string;
}

const nameOf = (node: number) => `rollcall-ray${node}`;
const addressOf = (node: number) => `${NETWORK}.${node + 11}`;
const ip = (words: string) => execFileSync('ip', words.split(' '), { stdio: ['ignore', 'ignore', 'pipe'] });

export class RayNodes {
  readonly address = `http://${addressOf(0)}:${DASHBOARD_PORT}`;
  readonly nodes: ChildProcess[] = [];
  readonly #options: ClusterOptions;

  private constructor(options: ClusterOptions) {
    this.#options = options;
  }

  static async start(options: ClusterOptions): Promise<RayNodes> {
    if (process.getuid?.() !== 0) throw new Error('nodes are network namespaces, which need root');
    const cluster = new RayNodes(options);
    const { folder, cpus, ownDisk } = options;
    mkdirSync(folder, { recursive: true });
    if (ownDisk !== undefined) mkdirSync(ownDisk, { recursive: true });
    const hosts = cpus.map((_, node) => `${addressOf(node)} ${nameOf(node)}`);
    writeFileSync(join(folder, 'hosts'), ['127.0.0.1 localhost', ...hosts, ''].join('\n'));
    try {
      connect(cpus.length);
      for (const count of cpus) await cluster.#add(count, 1);
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** Ray gives a raylet 30 s to start, which is too little on a busy machine. */
  async #add(cpus: number, tries: number): Promise<void> {
    try {
      await this.#start(cpus);
    } catch (error) {
      const node = this.nodes.length - 1;
      await ended(this.nodes.pop()!);
      killAll(node);
      if (tries >= MOST_STARTS) throw error;
      await this.#add(cpus, tries + 1);
    }
  }

  async #start(cpus: number): Promise<void> {
    const { bin, folder, ownDisk } = this.#options;
    const node = this.nodes.length;
    const head = [
      ...['--head', `--port=${PORT}`, `--temp-dir=${folder}`],
      ...[`--dashboard-host=${addressOf(0)}`, `--dashboard-port=${DASHBOARD_PORT}`],
    ];
    const words = [
      ...[join(bin, 'ray'), 'start', '--block', `--num-cpus=${cpus}`, '--object-store-memory=200000000'],
      `--node-ip-address=${addressOf(node)}`,
      ...(node === 0 ? head : [`--address=${addressOf(0)}:${PORT}`]),
    ];
    const own = [
      `hostname ${nameOf(node)}`,
      `mount --bind ${join(folder, 'hosts')} /etc/hosts`,
      ...(ownDisk === undefined ? [] : [`mount -t tmpfs -o size=512m tmpfs ${ownDisk}`]),
      'exec "$@"',
    ];
    const inside = ['unshare', '--mount', '--uts', 'bash', '-c', own.join(' && '), 'ray', ...words];
    const log = openSync(join(folder, `node-${node}.log`), 'w');
    const child = spawn('nsenter', [`--net=/run/netns/${nameOf(node)}`, ...inside], {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...SETTINGS },
    });
    this.nodes.push(child);
    const says = () => readFileSync(join(folder, `node-${node}.log`), 'utf8');
    const failed = () => (child.exitCode === null ? undefined : says());
    await until(`node ${node} of the cluster`, () => says().includes('Ray runtime started'), failed);
    if (node === 0) await until('the dashboard', () => isUp(this.address), failed);
  }

  raylet(node: number): number {
    return processesOf(node).find(({ command }) => command.includes('raylet/raylet'))!.pid;
  }

  /** Processes of a run in this cluster whose command line holds a text; not their guards. */
  find(text: string): { readonly pid: number; readonly node: number }[] {
    return this.nodes.flatMap((_, node) =>
      processesOf(node)
        .filter(({ command }) => command.includes(text) && !command.includes('rollcall_ray.guard'))
        .map(({ pid }) => ({ pid, node })),
    );
  }

  async stop(): Promise<void> {
    for (const child of [...this.nodes].reverse()) await ended(child);
    disconnect(this.#options.cpus.length);
  }
}

/** Nodes on one bridge, which this process reaches too. */
function connect(count: number): void {
  disconnect(count);
  ip(`link add ${BRIDGE} type bridge`);
  ip(`addr add ${NETWORK}.1/24 dev ${BRIDGE}`);
  ip(`link set ${BRIDGE} up`);
  for (let node = 0; node < count; node++) {
    const name = nameOf(node);
    ip(`netns add ${name}`);
    ip(`link add rc-ray${node} type veth peer name eth0 netns ${name}`);
    ip(`link set rc-ray${node} master ${BRIDGE} up`);
    ip(`-n ${name} addr add ${addressOf(node)}/24 dev eth0`);
    ip(`-n ${name} link set eth0 up`);
    ip(`-n ${name} link set lo up`);
    ip(`-n ${name} route add default via ${NETWORK}.1`); // Ray asks the route for its own address
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const cancel = clock.timer(20_000, () => child.kill('SIGKILL'));
  await exited;
  cancel();
}

function killAll(node: number): void {
  for (const { pid } of processesOf(node)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // it has ended
    }
  }
}

/** Also what a proof that was killed has left. */
function disconnect(count: number): void {
  const names = Array.from({ length: count }, (_, node) => nameOf(node));
  for (const node of names.keys()) killAll(node);
  // Links first: the kernel takes a namespace down some time after its last process has ended.
  const links = [...names.map((_, node) => `link del rc-ray${node}`), `link del ${BRIDGE}`];
  for (const words of [...links, ...names.map((name) => `netns del ${name}`)]) {
    try {
      ip(words);
    } catch {
      // there is none
    }
  }
}

/** All that run in a node, also those whose parent has ended. */
function processesOf(node: number): { readonly pid: number; readonly command: string }[] {
  const { stdout } = spawnSync('ip', ['netns', 'pids', nameOf(node)], { encoding: 'utf8' });
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((pid) => ({ pid: Number(pid), command: commandOf(pid) }));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return ''; // it has ended
  }
}

async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  failed: () => string | undefined,
): Promise<void> {
  const deadline = clock.now() + 1000 * START_SECONDS;
  while (!(await holds())) {
    const why = failed() ?? (clock.now() > deadline ? `not in ${START_SECONDS} s` : undefined);
    if (why !== undefined) throw new Error(`${what} did not start: ${why}`);
    await sleep(clock, 500);
  }
}

async function isUp(address: string): Promise<boolean> {
  const reply = await fetch(`${address}/api/version`).catch(() => undefined);
  return reply?.ok ?? false;
}

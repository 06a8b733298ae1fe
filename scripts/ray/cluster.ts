/** A Ray cluster of several raylets on this machine, each with resources of its own, and the processes below them. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { realClock, sleep } from '../../src/lib/clock.ts';

const RELEASE = '2.60.0';
const START_SECONDS = 120;
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

export class RayNodes {
  readonly address: string;
  readonly nodes: ChildProcess[] = [];
  readonly #options: ClusterOptions;
  readonly #port: number;

  private constructor(options: ClusterOptions, port: number, dashboard: number) {
    this.#options = options;
    this.#port = port;
    this.address = `http://127.0.0.1:${dashboard}`;
  }

  static async start(options: ClusterOptions): Promise<RayNodes> {
    const cluster = new RayNodes(options, await freePort(), await freePort());
    for (const cpus of options.cpus) await cluster.add(cpus);
    return cluster;
  }

  /** One more node. It is ended when this process closes its input, or stops it. */
  async add(cpus: number): Promise<void> {
    const { bin, folder, ownDisk } = this.#options;
    const number = this.nodes.length;
    const isHead = number === 0;
    const words = [
      ...[join(bin, 'ray'), 'start', '--block', `--num-cpus=${cpus}`, '--object-store-memory=200000000'],
      ...(isHead
        ? [
            ...['--head', `--port=${this.#port}`, '--dashboard-host=127.0.0.1'],
            ...[`--dashboard-port=${new URL(this.address).port}`, `--temp-dir=${folder}`],
          ]
        : [`--address=127.0.0.1:${this.#port}`]),
      `--dashboard-agent-listen-port=${await freePort()}`,
    ];
    mkdirSync(folder, { recursive: true });
    if (ownDisk !== undefined) mkdirSync(ownDisk, { recursive: true });
    const own = `mount -t tmpfs -o size=512m tmpfs ${ownDisk} && exec "$@"`;
    const command = ownDisk === undefined ? words : ['unshare', '-m', 'bash', '-c', own, 'ray', ...words];
    const log = openSync(join(folder, `node-${number}.log`), 'w');
    const child = spawn(command[0]!, command.slice(1), {
      stdio: ['ignore', log, log],
      env: { ...process.env, RAY_USAGE_STATS_ENABLED: '0' },
    });
    this.nodes.push(child);
    const alive = () => this.#raylets().length > number;
    await until(`node ${number} of the cluster`, alive, () => child.exitCode !== null);
    if (isHead) await until('the dashboard', () => isUp(this.address));
  }

  /** The raylet of a node, which was started last where it was started again. */
  raylet(node: number): number {
    return descendants(this.nodes[node]!.pid!).find(({ command }) => command.includes('raylet/raylet'))!.pid;
  }

  /** Processes of a run in this cluster whose command line holds a text; not their guards. */
  find(text: string): { readonly pid: number; readonly node: number }[] {
    return this.nodes.flatMap((child, node) =>
      descendants(child.pid!)
        .filter(({ command }) => command.includes(text) && !command.includes('rollcall_ray.guard'))
        .map(({ pid }) => ({ pid, node })),
    );
  }

  async stop(): Promise<void> {
    for (const child of [...this.nodes].reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const below = descendants(child.pid!);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      const late = clock.timer(20_000, () => child.kill('SIGKILL'));
      await ended;
      late();
      for (const { pid, command } of below) if (commandOf(pid) === command) kill(pid);
    }
  }

  #raylets(): unknown[] {
    return this.nodes.flatMap((child) =>
      descendants(child.pid!).filter(({ command }) => command.includes('raylet/raylet')),
    );
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // it has ended
  }
}

const commandOf = (pid: number) => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
};

function descendants(root: number): { readonly pid: number; readonly command: string }[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // it has ended meanwhile
    }
  }
  const below = (pid: number): number[] => (children.get(pid) ?? []).flatMap((one) => [one, ...below(one)]);
  return below(root).map((pid) => ({ pid, command: commandOf(pid) }));
}

async function until(what: string, holds: () => boolean | Promise<boolean>, failed = () => false) {
  const deadline = clock.now() + 1000 * START_SECONDS;
  while (!(await holds())) {
    if (failed() || clock.now() > deadline) throw new Error(`${what} did not start`);
    await sleep(clock, 500);
  }
}

async function isUp(address: string): Promise<boolean> {
  const reply = await fetch(`${address}/api/version`).catch(() => undefined);
  return reply?.ok ?? false;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  return port;
}

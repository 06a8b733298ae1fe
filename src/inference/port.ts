import { readdir, readFile, readlink } from 'node:fs/promises';
import { connect } from 'node:net';

/** Whether something listens there. */
export function isPortTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const end = (taken: boolean) => {
      socket.destroy();
      resolve(taken);
    };
    socket.once('connect', () => end(true)).once('error', () => end(false));
    socket.setTimeout(1000, () => end(false));
  });
}

/** `process 4242 (python3 -m sglang…)`, where /proc tells; of another user's process it does not. */
export async function portOwner(port: number): Promise<string | undefined> {
  try {
    const inodes = new Set((await Promise.all(['tcp', 'tcp6'].map((kind) => listeners(kind, port)))).flat());
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const holds = await Promise.all(pids.map((pid) => holdsOne(pid, inodes)));
    const pid = pids.find((_, at) => holds[at]);
    if (pid === undefined) return undefined;
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
    return `process ${pid} (${command.slice(0, 120)})`;
  } catch {
    return undefined; // no /proc
  }
}

async function holdsOne(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const open = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const targets = await Promise.all(open.map((one) => readlink(`/proc/${pid}/fd/${one}`).catch(() => '')));
  return targets.some((target) => inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? ''));
}

const LISTENING = '0A';

async function listeners(kind: string, port: number): Promise<string[]> {
  const table = await readFile(`/proc/net/${kind}`, 'utf8').catch(() => '');
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[1]?.endsWith(`:${wanted}`) && columns[3] === LISTENING)
    .map((columns) => columns[9]!);
}

/** Two hosts on this machine: network namespaces that reach each other only through `link.py`, which can be made bad. Needs root. */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';

export type Host = 'near' | 'far';
export const ADDRESS: Readonly<Record<Host, string>> = { near: '10.78.0.1', far: '10.78.0.2' };
const NAMESPACE: Readonly<Record<Host, string>> = { near: 'rollcall-near', far: 'rollcall-far' };

export interface LinkState {
  /** Seconds, one way. */
  readonly delay?: number;
  /** Share of the packets. */
  readonly loss?: number;
  readonly cut?: boolean;
}

/** Packets so far: passed on, lost by chance, lost by the cut; bytes passed on. */
export type LinkCounts = Readonly<Record<'passed' | 'lost' | 'cut' | 'bytes', number>>;

export interface TwoHosts {
  start(host: Host, words: readonly string[], options: SpawnOptions): ChildProcess;
  set(state: LinkState): Promise<LinkCounts>;
  stop(): Promise<void>;
}

/** What this machine lacks for it, in words; undefined: nothing. */
export function whatIsMissing(): string | undefined {
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  if (!existsSync('/dev/net/tun')) return 'there is no /dev/net/tun';
  try {
    execFileSync('ip', ['netns', 'add', 'rollcall-try'], { stdio: 'ignore' });
    execFileSync('ip', ['netns', 'del', 'rollcall-try']);
    return undefined;
  } catch {
    return 'network namespaces are not permitted here, or there is no ip: apt-get install iproute2';
  }
}

/** Whether the kernel has netem: the link here does the same in user space. */
export function hasNetem(): boolean {
  try {
    const words = ['-n', NAMESPACE.near, 'qdisc', 'add', 'dev', 'lo', 'root', 'netem', 'delay', '1ms'];
    execFileSync('tc', words, { stdio: 'ignore' });
    execFileSync('tc', ['-n', NAMESPACE.near, 'qdisc', 'del', 'dev', 'lo', 'root']);
    return true;
  } catch {
    return false;
  }
}

export async function openTwoHosts(): Promise<TwoHosts> {
  const children: ChildProcess[] = [];
  const stop = async () => {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    for (const child of children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    for (const name of Object.values(NAMESPACE)) {
      try {
        execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
      } catch {
        // it was not there
      }
    }
  };
  const onSignal = () => void stop().finally(() => process.exit(1));
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  try {
    for (const name of Object.values(NAMESPACE)) {
      execFileSync('ip', ['netns', 'add', name]);
      execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
    }
    const ends = [NAMESPACE.near, ADDRESS.near, NAMESPACE.far, ADDRESS.far];
    const link = spawn('python3', ['scripts/network/link.py', ...ends], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    children.push(link);
    const lines = createInterface({ input: link.stdout! })[Symbol.asyncIterator]();
    const counts = async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error('the link between the hosts has ended');
      return JSON.parse(value) as LinkCounts;
    };
    await counts();
    return {
      start(host, words, options) {
        const child = spawn('nsenter', [`--net=/run/netns/${NAMESPACE[host]}`, ...words], options);
        children.push(child);
        return child;
      },
      set(state) {
        link.stdin!.write(`${JSON.stringify(state)}\n`);
        return counts();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

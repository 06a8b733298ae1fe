import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, cpus, homedir, platform, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EngineError } from '../../errors.ts';
import { nativeDirectory } from './native-directory.ts';

const run = promisify(execFile);

const BUILD_TIMEOUT_MS = 180_000;
/** A lock whose holder has not touched it for this long is dead. */
const STALE_LOCK_MS = 15_000;

// No -ffast-math: softmax and the checks rely on infinities and NaN, and reordered sums would not be batch-invariant.
const FLAGS = [
  '-std=gnu11',
  '-O3',
  '-ffp-contract=fast',
  '-fno-math-errno',
  '-fno-trapping-math',
  '-fPIC',
  '-fvisibility=hidden',
];
const LINK_FLAGS =
  platform() === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared', '-pthread'];

interface Build {
  readonly path: string;
  /** Its name and version, for people. */
  readonly compiler: string;
}

/** The sources in a fixed order with their text: what the cache key and the wasm's hash are made of. */
async function readSources(): Promise<readonly (readonly [string, string])[]> {
  const names = (await readdir(nativeDirectory)).filter((name) => /\.[ch]$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => [name, await readFile(join(nativeDirectory, name), 'utf8')] as const),
  );
}

async function findCompiler(): Promise<{ command: string; version: string }> {
  const candidates = process.env['CC'] ? [process.env['CC']] : ['cc', 'gcc', 'clang'];
  for (const command of candidates) {
    try {
      const { stdout } = await run(command, ['--version'], { timeout: 10_000 });
      return { command, version: stdout.split('\n')[0]!.trim() };
    } catch {
      // The next one, or none.
    }
  }
  throw new EngineError(`no C compiler (tried ${candidates.join(', ')})`);
}

/** What -march=native depends on: caches are shared between machines, by home folders and by images. */
async function cpuFeatures(): Promise<string> {
  try {
    const text = await readFile('/proc/cpuinfo', 'utf8');
    return text.match(/^(?:flags|Features)\s*:.*$/m)?.[0] ?? '';
  } catch {
    return cpus()[0]?.model ?? '';
  }
}

async function cacheDirectory(): Promise<string> {
  const home = homedir();
  const byPlatform = {
    darwin: join(home, 'Library', 'Caches'),
    win32: process.env['LOCALAPPDATA'] ?? join(home, 'AppData', 'Local'),
  };
  const base =
    process.env['XDG_CACHE_HOME'] || byPlatform[platform() as 'darwin' | 'win32'] || join(home, '.cache');
  for (const candidate of [
    join(base, 'rollcall'),
    join(tmpdir(), `rollcall-${process.getuid?.() ?? 'user'}`),
  ]) {
    try {
      await mkdir(candidate, { recursive: true, mode: 0o700 });
      // Its files are loaded as code: it must be ours, and nobody else may write to it.
      const { uid, mode } = await stat(candidate);
      if (process.getuid && (uid !== process.getuid() || mode & 0o022)) continue;
      const probe = join(candidate, `.probe-${randomBytes(6).toString('hex')}`);
      await (await open(probe, 'wx')).close();
      await rm(probe);
      return candidate;
    } catch {
      // Read-only or not ours: the next one.
    }
  }
  throw new EngineError(`no writable cache folder (tried ${base} and ${tmpdir()})`);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** The addon for this source, compiler, Node and CPU: from the cache, or built into it. */
export async function buildAddon(log: (line: string) => void): Promise<Build> {
  if (platform() === 'win32') throw new EngineError('native kernels are built on Linux and macOS only');
  const [sources, compiler, features, cache] = await Promise.all([
    readSources(),
    findCompiler(),
    cpuFeatures(),
    cacheDirectory(),
  ]);
  const hash = createHash('sha256');
  const parts = [...sources.flat(), ...FLAGS, ...LINK_FLAGS, compiler.command, compiler.version];
  for (const part of [...parts, process.versions.modules, arch(), features]) hash.update(`${part}\u0000`);
  const path = join(cache, `kernels-${hash.digest('hex').slice(0, 24)}.node`);
  const build = { path, compiler: compiler.version };
  if (await exists(path)) return build;
  await withLock(
    `${path}.lock`,
    () => exists(path),
    async () => {
      const started = Date.now();
      await compile(compiler.command, path);
      log(
        `compiled the native kernels in ${((Date.now() - started) / 1000).toFixed(1)} s (${compiler.version})`,
      );
    },
  );
  return build;
}

async function compile(command: string, path: string): Promise<void> {
  const headers = join(
    dirname(createRequire(import.meta.url).resolve('node-api-headers/package.json')),
    'include',
  );
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  // Apple's older clang has no -march=native on arm; what the plain build assumes is what all of those CPUs have.
  const tunings = [['-march=native'], ['-mcpu=native'], []];
  let failure: unknown;
  for (const tuning of tunings) {
    const args = [...FLAGS, ...tuning, '-I', headers, join(nativeDirectory, 'addon.c'), '-o', temporary];
    try {
      await run(command, [...args, ...LINK_FLAGS], { timeout: BUILD_TIMEOUT_MS });
      await rename(temporary, path);
      return;
    } catch (error) {
      failure ??= error;
      await rm(temporary, { force: true });
    }
  }
  const text = (failure as { stderr?: string }).stderr?.trim() || String(failure);
  throw new EngineError(
    `${command} could not compile the kernels: ${text.split('\n').slice(0, 3).join(' ')}`,
  );
}

/** Runs `work` while holding the lock file, unless `done` becomes true while another process holds it. */
async function withLock(
  lock: string,
  done: () => Promise<boolean>,
  work: () => Promise<void>,
): Promise<void> {
  const deadline = Date.now() + BUILD_TIMEOUT_MS;
  for (;;) {
    try {
      await (await open(lock, 'wx')).close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (await done()) return;
    const touched = await stat(lock).then(
      ({ mtimeMs }) => mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - touched > STALE_LOCK_MS) await rm(lock, { force: true });
    if (Date.now() > deadline) throw new EngineError(`waited too long for another build (${lock})`);
    await sleep(50);
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(lock, now, now).catch(() => undefined);
  }, STALE_LOCK_MS / 5);
  try {
    if (!(await done())) await work();
  } finally {
    clearInterval(heartbeat);
    await rm(lock, { force: true });
  }
}

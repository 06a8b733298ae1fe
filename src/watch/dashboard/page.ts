/** The page: shipped in the package; in a clone, Vite builds it when it is first needed or its sources changed. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ConfigError } from '../../errors.ts';

/** Each file by its path in the page; whatever is not here does not exist. */
export type Page = ReadonlyMap<string, { readonly bytes: Buffer; readonly type: string }>;

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

const BUILD_TIMEOUT_MS = 120_000;

export async function loadPage(say: (line: string) => void = () => {}): Promise<Page> {
  const root = packageRoot();
  const built = join(root, 'dist', 'dashboard');
  const sources = join(root, 'web');
  if (existsSync(join(sources, 'index.html'))) await buildIfChanged(sources, built, say);
  if (!existsSync(join(built, 'index.html'))) {
    throw new ConfigError(`the dashboard's page is missing from ${built}; reinstall the package`);
  }
  const files = await readdir(built, { recursive: true, withFileTypes: true });
  const page = new Map<string, { bytes: Buffer; type: string }>();
  for (const file of files) {
    const path = join(file.parentPath, file.name);
    const type = TYPES[file.name.split('.').at(-1)!];
    if (!file.isFile() || type === undefined) continue;
    const name = path.slice(built.length).replaceAll('\\', '/');
    page.set(name, { bytes: await readFile(path), type });
  }
  return page;
}

/** Builds the page unless it was built from exactly these sources. */
async function buildIfChanged(sources: string, built: string, say: (line: string) => void): Promise<void> {
  const hash = await hashOf(sources);
  const stamp = join(built, 'sources.sha256');
  const known = await readFile(stamp, 'utf8').catch(() => '');
  if (known === hash) return;
  say('Building the page (once).');
  // Beside, and renamed: two processes may build at once, and a third may be reading.
  const beside = `${built}.${randomBytes(4).toString('hex')}.partial`;
  try {
    await runVite(sources, beside);
    await writeFile(join(beside, 'sources.sha256'), hash);
    await rm(built, { recursive: true, force: true });
    await rename(beside, built);
  } catch (error) {
    if ((await readFile(stamp, 'utf8').catch(() => '')) !== hash) throw error; // else another process was faster
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
}

/** Builds in a separate process: a bundler is larger than this server. */
export async function runVite(sources: string, out: string): Promise<void> {
  let vite: string;
  try {
    vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin', 'vite.js');
  } catch {
    throw new ConfigError("the dashboard's page is not built and Vite is not installed; run npm install");
  }
  const flags = ['build', sources, '--outDir', out, '--emptyOutDir', '--logLevel', 'error'];
  try {
    await promisify(execFile)(process.execPath, [vite, ...flags], {
      timeout: BUILD_TIMEOUT_MS,
      env: { ...process.env, NODE_ENV: 'production' }, // tests set another, and get React's slow build
    });
  } catch (error) {
    throw new ConfigError(`the dashboard's page cannot be built: ${(error as Error).message}`);
  }
}

async function hashOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = files.filter((file) => file.isFile()).map((file) => join(file.parentPath, file.name));
  for (const path of paths.sort()) hash.update(path.slice(folder.length)).update(await readFile(path));
  return hash.digest('hex');
}

export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

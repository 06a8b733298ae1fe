/** What the proof of outside agents installs, each in its own folder of the cache; nothing is built or run at install. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const CACHE = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'rollcall', 'agents');

const run = (program: string, words: readonly string[], cwd = CACHE) =>
  execFileSync(program, words, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });

/** A Python with the packages. */
export function pythonWith(...packages: string[]): string {
  const python = join(CACHE, 'python', 'bin', 'python');
  mkdirSync(CACHE, { recursive: true });
  if (!existsSync(python)) run('python3', ['-m', 'venv', 'python']);
  run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
  return python;
}

/** A folder with these packages of npm, none of whose install scripts was run. */
export function npmFolder(name: string, packages: readonly string[]): string {
  const folder = join(CACHE, name);
  mkdirSync(folder, { recursive: true });
  if (!existsSync(join(folder, 'package.json')))
    writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}');
  const wanted = packages.filter((one) => {
    const file = join(folder, 'node_modules', one.replace(/(?<=.)@[^/]*$/, ''), 'package.json');
    return !existsSync(file);
  });
  if (wanted.length > 0)
    run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...wanted], folder);
  return folder;
}

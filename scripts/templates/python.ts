import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where fetched files and Python's packages are kept. */
export const CACHE = join(homedir(), '.cache', 'rollcall');

const PACKAGES = ['transformers', 'jinja2', 'gguf'];

export function run(command: string, words: readonly string[], input = ''): string {
  const { stdout, stderr, status, error } = spawnSync(command, words, {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  if (status !== 0)
    throw new Error(`${command} ${words.join(' ')} failed: ${error?.message ?? stderr.slice(-2000)}`);
  return stdout;
}

/** Asks a script beside this file: one line of JSON for each question, one for each answer. */
export type AskPython = (script: string, questions: readonly unknown[]) => unknown[];

/** A Python with `transformers`: the one given, or a virtual environment that is made at the first run. */
export function openPython(given: string): { readonly program: string; readonly ask: AskPython } {
  const program = given === '' ? ownPython() : given;
  const ask: AskPython = (script, questions) => {
    if (questions.length === 0) return [];
    const lines = questions.map((question) => `${JSON.stringify(question)}\n`).join('');
    const answers = run(program, [join(import.meta.dirname, script)], lines)
      .trim()
      .split('\n');
    return answers.map((line) => JSON.parse(line) as unknown);
  };
  return { program, ask };
}

function ownPython(): string {
  const folder = join(CACHE, 'templates');
  const program = join(folder, 'bin', 'python');
  if (!existsSync(program)) run('python3', ['-m', 'venv', folder]);
  run(program, ['-m', 'pip', 'install', '--quiet', ...PACKAGES]);
  return program;
}

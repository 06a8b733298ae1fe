import { format } from 'node:util';
import { vi } from 'vitest';
import { main } from '../src/cli/main.ts';

export interface CommandResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * `rollcall WORDS` in this process, which has loaded it already: a process would take a second or two to start. What
 * only a process can show (its exit, its signals, its closed input) is tested with one.
 */
export function command(...words: readonly string[]): Promise<CommandResult> {
  return startCommand(...words).ended;
}

/** The same for a test that acts on what the command has said so far. */
export function startCommand(...words: readonly string[]) {
  const said = { stdout: '', stderr: '' };
  return { said, ended: run(words, said) };
}

async function run(
  words: readonly string[],
  said: { stdout: string; stderr: string },
): Promise<CommandResult> {
  const to = (stream: keyof typeof said) => (text: string | Uint8Array) => {
    said[stream] += String(text);
    return true;
  };
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(to('stdout')),
    vi.spyOn(process.stderr, 'write').mockImplementation(to('stderr')),
    vi.spyOn(console, 'log').mockImplementation((...parts) => void to('stdout')(`${format(...parts)}\n`)),
    vi.spyOn(console, 'error').mockImplementation((...parts) => void to('stderr')(`${format(...parts)}\n`)),
  ];
  try {
    await main(words);
    return { status: Number(process.exitCode ?? 0), ...said };
  } finally {
    for (const spy of spies) spy.mockRestore();
    process.exitCode = undefined;
  }
}

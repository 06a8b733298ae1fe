/** A process for short runs, started again when one of them ends it. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, Ask } from './child.ts';

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** A run that hangs is stopped by its own limit twice, then counts as hung. */
const LONGEST_MS = 220_000;

export class Runner {
  #child: ChildProcess | undefined;

  async ask(ask: Ask): Promise<Answer> {
    this.#child ??= await startChild();
    const child = this.#child;
    const gone = new AbortController();
    const answered = once(child, 'message', { signal: gone.signal }).then(([answer]) => answer as Answer);
    const ended = once(child, 'exit', { signal: gone.signal }).then(([code, signal]) =>
      lost(`the process ended with ${code ?? signal}`),
    );
    const late = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS);
    child.send(ask);
    try {
      const answer = await Promise.race([answered, ended]);
      if (answer.outcome.startsWith('lost')) this.#child = undefined;
      return answer;
    } finally {
      clearTimeout(late);
      gone.abort();
      answered.catch(() => {});
      ended.catch(() => {});
    }
  }

  close(): void {
    this.#child?.kill();
  }
}

const lost = (why: string): Answer => ({ fired: true, outcome: `lost: ${why}`, stray: [], seconds: 0 });

async function startChild(): Promise<ChildProcess> {
  const child = fork(file('./child.ts'), [], {
    execArgv: ['--import', file('../../bin/register.js'), '--import', file('./preload.ts')],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  await once(child, 'message');
  return child;
}

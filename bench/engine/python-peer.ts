import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A Python process that runs the same work, kept alive so that runs can be interleaved. */
export class PythonPeer {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(python: string, peer: 'torch_engine' | 'torch_vision' | 'peft_lora' | 'llama_engine') {
    const script = fileURLToPath(new URL(`../peers/${peer}.py`, import.meta.url));
    this.#process = spawn(python, ['-W', 'ignore', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  async ask<T>(request: Readonly<Record<string, unknown>>): Promise<T> {
    this.#process.stdin!.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await this.#lines.next();
    if (done)
      throw new Error(
        `${this.#process.spawnfile} ended; are the packages of the peer installed in this Python?`,
      );
    return JSON.parse(value) as T;
  }

  async close(): Promise<void> {
    this.#process.stdin!.end();
    if (this.#process.exitCode === null) await once(this.#process, 'exit');
  }
}

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Engine } from '../engine.ts';
import { SglangServer } from '../sglang.ts';

/** `rollcall serve`: the embedded engine in processes of its own. It speaks SGLang's protocol and uses no GPU. */
export const rollcall: Engine = {
  name: 'rollcall',
  connect: (options) => new SglangServer(options),
  launch: {
    onGpus: false,
    ignores: ['tensorParallel', 'memoryShare', 'logLevel'],
    command: ({ model, replicas }, port) => {
      // The threads of this machine are divided among the replicas.
      const threads = Math.max(1, Math.floor(availableParallelism() / replicas));
      const flags = ['--model', model, '--port', String(port), '--threads', String(threads)];
      return { program: process.execPath, arguments: [ownProgram(), 'serve', ...flags], environment: {} };
    },
  },
};

/** bin/rollcall.js: three folders above this file in the source, four above it in dist/. */
function ownProgram(): string {
  const near = new URL('../../../bin/rollcall.js', import.meta.url);
  return fileURLToPath(existsSync(near) ? near : new URL('../../../../bin/rollcall.js', import.meta.url));
}

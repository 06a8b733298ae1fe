import { availableParallelism } from 'node:os';
import { ownProgram } from '../../lib/own-program.ts';
import type { Engine } from '../engine.ts';
import { SglangServer } from '../sglang.ts';

/** `rollcall serve`: the embedded engine in separate processes. It speaks SGLang's protocol and uses no GPU. */
export const rollcall: Engine = {
  name: 'rollcall',
  connect: (options) => new SglangServer(options),
  launch: {
    program: process.execPath,
    onGpus: false,
    ignores: ['tensorParallel', 'memoryShare', 'logLevel', 'program'],
    command: ({ model, replicas }, port) => {
      // The threads of this machine are divided among the replicas.
      const threads = Math.max(1, Math.floor(availableParallelism() / replicas));
      const flags = ['--model', model, '--port', String(port), '--threads', String(threads)];
      return { arguments: [ownProgram('rollcall.js'), 'serve', ...flags], environment: {} };
    },
  },
};

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
    command: ({ model, replicas, host, threads: given }, port) => {
      // The threads of this machine are divided among the replicas.
      const threads = given ?? Math.max(1, Math.floor(availableParallelism() / replicas));
      const flags = ['--model', model, '--port', String(port), '--threads', String(threads)];
      const beyond = host === undefined ? [] : ['--host', host, '--allow-updates'];
      return { arguments: [ownProgram('rollcall.js'), 'serve', ...flags, ...beyond], environment: {} };
    },
  },
};

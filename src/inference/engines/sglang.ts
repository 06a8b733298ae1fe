import type { Engine } from '../engine.ts';
import { SglangServer } from '../sglang.ts';

export const sglang: Engine = {
  name: 'sglang',
  verlNames: ['sglang', 'sglang_async'],
  connect: (options) => new SglangServer(options),
  launch: {
    onGpus: true,
    command: ({ model, tensorParallel, memoryShare, logLevel }, port) => ({
      program: 'python3',
      arguments: [
        ...['-m', 'sglang.launch_server'],
        ...['--model-path', model],
        ...['--host', '127.0.0.1', '--port', String(port)],
        ...['--tp', String(tensorParallel)],
        ...['--mem-fraction-static', String(memoryShare)],
        ...['--log-level', logLevel],
        '--enable-memory-saver',
      ],
      environment: {},
    }),
  },
};

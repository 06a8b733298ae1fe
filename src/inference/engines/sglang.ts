import type { Engine } from '../engine.ts';
import { SglangServer } from '../sglang.ts';

/** All layers that an adapter may change. */
const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];

export const sglang: Engine = {
  name: 'sglang',
  verlNames: ['sglang', 'sglang_async'],
  tested: ['0.5.23'],
  connect: (options) => new SglangServer(options),
  launch: {
    keyFlag: '--api-key',
    program: 'python3',
    package: 'sglang',
    onGpus: true,
    command: (
      { model, tensorParallel, memoryShare, logLevel, sleeps, loraRank, host = '127.0.0.1' },
      port,
    ) => ({
      arguments: [
        ...['-m', 'sglang.launch_server'],
        ...['--model-path', model],
        ...['--host', host, '--port', String(port)],
        ...['--tp', String(tensorParallel)],
        ...['--mem-fraction-static', String(memoryShare)],
        ...['--log-level', logLevel],
        ...(sleeps ? ['--enable-memory-saver'] : []),
        ...(loraRank === undefined ? [] : loraFlags(loraRank)),
      ],
      // Idle connections are closed by the client; a server that does so may meet a request on its way.
      environment: { SGLANG_TIMEOUT_KEEP_ALIVE: '600' },
    }),
  },
};

/** The newest two adapters stay loaded, and a third while it comes. */
const loraFlags = (rank: number) => [
  ...['--enable-lora', '--max-lora-rank', String(rank)],
  ...['--max-loras-per-batch', '4', '--max-loaded-loras', '4'],
  ...['--lora-target-modules', ...LORA_TARGETS],
];

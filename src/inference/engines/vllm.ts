import type { Engine } from '../engine.ts';
import { VllmServer } from '../vllm.ts';

export const vllm: Engine = {
  name: 'vllm',
  verlNames: ['vllm', 'vllm_async'],
  tested: ['0.23.0', '0.32.0'],
  connect: (options) => new VllmServer(options),
  launch: {
    program: 'vllm',
    package: 'vllm',
    onGpus: true,
    command: (
      { model, tensorParallel, memoryShare, logLevel, sleeps, loraRank, host = '127.0.0.1' },
      port,
      release,
    ) => ({
      arguments: [
        ...['serve', model],
        ...['--host', host, '--port', String(port)],
        ...['--tensor-parallel-size', String(tensorParallel)],
        ...['--gpu-memory-utilization', String(memoryShare)],
        // Log-probs after temperature, and no sampling defaults of the model.
        ...['--logprobs-mode', 'processed_logprobs'],
        ...['--generation-config', 'vllm'],
        '--enable-prompt-tokens-details',
        ...['--uvicorn-log-level', logLevel],
        ...(hasScaleOut(release) ? ['--enable-scale-out'] : []),
        ...(sleeps ? ['--enable-sleep-mode'] : []),
        ...(loraRank === undefined ? [] : loraFlags(loraRank)),
      ],
      environment: {
        VLLM_SERVER_DEV_MODE: '1',
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
        VLLM_LOGGING_LEVEL: logLevel.toUpperCase(),
        // Idle connections are closed by the client; a server that does so may meet a request on its way.
        VLLM_HTTP_TIMEOUT_KEEP_ALIVE: '600',
      },
    }),
  },
};

/** Since 0.31 `/inference/v1/generate` is off without the flag, which older versions do not know. */
function hasScaleOut(release = '1.0'): boolean {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10));
  return major > 0 || minor >= 31;
}

/** Ranks that vLLM knows. */
const RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512];

/** The newest two adapters stay loaded, and a third while it comes. */
const loraFlags = (rank: number) => [
  ...['--enable-lora', '--max-lora-rank', String(RANKS.find((one) => one >= rank) ?? rank)],
  ...['--max-loras', '2', '--max-cpu-loras', '4'],
];

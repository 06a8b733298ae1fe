import type { Engine } from '../engine.ts';
import { VllmServer } from '../vllm.ts';

export const vllm: Engine = {
  name: 'vllm',
  verlNames: ['vllm', 'vllm_async'],
  connect: (options) => new VllmServer(options),
  launch: {
    onGpus: true,
    command: ({ model, tensorParallel, memoryShare, logLevel }, port) => ({
      program: 'vllm',
      arguments: [
        ...['serve', model],
        ...['--host', '127.0.0.1', '--port', String(port)],
        ...['--tensor-parallel-size', String(tensorParallel)],
        ...['--gpu-memory-utilization', String(memoryShare)],
        // Log-probs after temperature, and no sampling defaults of the model.
        ...['--logprobs-mode', 'processed_logprobs'],
        ...['--generation-config', 'vllm'],
        '--enable-sleep-mode',
        ...['--uvicorn-log-level', logLevel],
      ],
      environment: {
        VLLM_SERVER_DEV_MODE: '1',
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1',
        VLLM_LOGGING_LEVEL: logLevel.toUpperCase(),
      },
    }),
  },
};

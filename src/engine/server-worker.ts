/** The thread of an embedded server: owns kernels, model and cache; talks by messages, one batch a step. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConfigError } from '../errors.ts';
import { arithmeticOf } from './arithmetic.ts';
import { EngineLoop } from './generation/engine-loop.ts';
import { Generator } from './generation/generator.ts';
import type { FromEngine, ServerSetup, ToEngine } from './generation/messages.ts';
import type { TokenDecoder } from './generation/stop-strings.ts';
import { openTokenDecoder } from './generation/token-decoder.ts';
import { diskWeights } from './generation/weight-sources.ts';
import { openKernels } from './kernels/open.ts';
import { readModelConfig } from './model/files.ts';
import { ImagePatches } from './vision/image-patches.ts';

const port = parentPort!;
const setup = workerData as ServerSetup;
const say = (message: FromEngine) => port.postMessage(message);

async function main(): Promise<void> {
  const config = readModelConfig(setup.model);
  const kernels = await openKernels({ ...setup.kernels, log: (line: string) => say({ kind: 'log', line }) });
  let decoder: TokenDecoder | undefined;
  const generator = new Generator(kernels, config, diskWeights(setup.model, config), {
    cacheMegabytes: setup.cacheMegabytes,
    maxBatch: setup.maxBatch,
    version: setup.version,
    weights: setup.weights,
    patches: config.vision && new ImagePatches(setup.model, config.vision),
    decoder: () => {
      decoder ??= openTokenDecoder(setup.model);
      return decoder;
    },
  });
  const loop = new EngineLoop(generator, say, async () => {
    generator.free();
    await kernels.close();
    port.close();
  });
  port.on('message', (message: ToEngine) => loop.receive(message));
  say({
    kind: 'ready',
    description: kernels.description,
    info: {
      engine: 'embedded',
      arithmetic: arithmeticOf(setup.weights),
      model: setup.model,
      vocabulary: config.vocabulary,
      contextTokens: generator.contextTokens,
      version: setup.version,
      logprobs: 'temperature',
      can: new Set([
        'scorePrompt',
        'lora',
        'memory',
        'disk',
        'pauseKeep',
        'seeds',
        ...(config.vision ? (['images'] as const) : []),
      ] as const),
    },
  });
}

main().catch((error: Error) => {
  say({ kind: 'broken', message: error.message, config: error instanceof ConfigError });
});

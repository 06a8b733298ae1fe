/** The thread of an embedded server: owns kernels, model and cache; talks by messages, one batch a step. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConfigError, EngineError } from '../errors.ts';
import type { WeightUpdate } from '../inference/server.ts';
import { openDecoder } from './generation/decoder.ts';
import { type GenerationStatistics, Generator } from './generation/generator.ts';
import type { Ask, FromEngine, ServerSetup, ToEngine } from './generation/messages.ts';
import type { PlainRequest } from './generation/request.ts';
import type { TokenDecoder } from './generation/stop-strings.ts';
import { diskWeights, memoryWeights } from './generation/weight-sources.ts';
import { openKernels } from './kernels/open.ts';
import { readModelConfig } from './model/files.ts';

const port = parentPort!;
const setup = workerData as ServerSetup;
const say = (message: FromEngine) => port.postMessage(message);

async function main(): Promise<void> {
  const config = readModelConfig(setup.model);
  const kernels = await openKernels({ ...setup.kernels, log: (line) => say({ kind: 'log', line }) });
  let decoder: TokenDecoder | undefined;
  const generator = new Generator(kernels, config, diskWeights(setup.model, config), {
    cacheMegabytes: setup.cacheMegabytes,
    maxBatch: setup.maxBatch,
    version: setup.version,
    decoder: () => {
      decoder ??= openDecoder(setup.model);
      return decoder;
    },
  });

  /** `draining`: what is in flight ends, what arrives is held; `paused`: nothing moves. */
  let state: 'running' | 'draining' | 'paused' = 'running';
  let held: { key: number; request: PlainRequest }[] = [];
  let drained: (() => void)[] = [];
  let ticking = false;

  const add = (key: number, request: PlainRequest) => {
    try {
      generator.add(key, request);
    } catch (error) {
      const failed = [{ key, message: (error as Error).message }];
      say({ kind: 'news', news: { streamed: { keys: [], ids: [], logprobs: [] }, finished: [], failed } });
    }
  };
  const addHeld = () => {
    const requests = held;
    held = [];
    for (const { key, request } of requests) add(key, request);
  };
  const tell = () => {
    const news = generator.takeNews();
    if (news) say({ kind: 'news', news });
  };
  const wake = () => {
    if (ticking) return;
    ticking = true;
    setImmediate(tick);
  };
  const tick = () => {
    if (state === 'paused' || !generator.busy) {
      ticking = false;
      return;
    }
    generator.step();
    tell();
    settleDrain();
    setImmediate(tick);
  };
  const settleDrain = () => {
    if (state !== 'draining' || generator.pending > 0) return;
    state = 'paused';
    addHeld();
    for (const settle of drained) settle();
    drained = [];
  };
  const pause = async (mode: 'abort' | 'wait' | 'keep') => {
    if (mode === 'wait' && state === 'running') state = 'draining';
    if (mode !== 'wait') {
      state = 'paused';
      if (mode === 'abort') generator.abortAll();
      tell();
      addHeld();
      for (const settle of drained) settle();
      drained = [];
      return;
    }
    await new Promise<void>((resolve) => {
      drained.push(resolve);
      if (state === 'paused') {
        drained = [];
        resolve();
      } else settleDrain();
    });
  };
  const resume = () => {
    state = 'running';
    for (const settle of drained) settle();
    drained = [];
    addHeld();
    wake();
  };
  const update = (weights: WeightUpdate) => {
    if (!Number.isSafeInteger(weights.version) || weights.version < 0) {
      throw new EngineError(`version is ${weights.version}; an integer from 0 on is needed`);
    }
    if (weights.kind === 'memory') {
      generator.updateWeights(weights.version, memoryWeights(weights.tensors, config));
    } else if (weights.kind === 'disk') {
      generator.updateWeights(weights.version, diskWeights(weights.path, config));
    } else if (weights.kind === 'lora') {
      generator.updateAdapter(weights.version, weights.name, weights.path);
    } else {
      throw new EngineError(`update kind ${weights.kind} is not one of memory, disk, lora (see \`can\`)`);
    }
  };
  const answer = async (ask: Ask): Promise<GenerationStatistics | undefined> => {
    if (ask.kind === 'pause') await pause(ask.mode);
    else if (ask.kind === 'resume') resume();
    else if (ask.kind === 'update') update(ask.weights);
    else if (ask.kind === 'statistics') return generator.statistics();
    else {
      state = 'paused';
      generator.free();
      await kernels.close();
      port.close();
    }
    return undefined;
  };
  port.on('message', (message: ToEngine) => {
    if (message.kind === 'generate') {
      if (state === 'draining') held.push(message);
      else add(message.key, message.request);
      wake();
    } else if (message.kind === 'abort') {
      const waiting = held.find(({ key }) => key === message.key);
      held = held.filter((request) => request !== waiting);
      if (waiting) add(waiting.key, waiting.request);
      generator.abort(message.key);
      tell();
      settleDrain();
    } else {
      const { call, ask } = message;
      answer(ask).then(
        (value) => say({ kind: 'answer', call, value }),
        (error: Error) => say({ kind: 'refused', call, message: error.message }),
      );
    }
  });

  say({
    kind: 'ready',
    description: kernels.description,
    info: {
      engine: 'embedded',
      model: setup.model,
      vocabulary: config.vocabulary,
      contextTokens: generator.contextTokens,
      version: setup.version,
      logprobs: 'temperature',
      can: new Set(['scorePrompt', 'lora', 'memory', 'disk', 'pauseKeep'] as const),
    },
  });
}

main().catch((error: Error) => {
  say({ kind: 'broken', message: error.message, config: error instanceof ConfigError });
});

/** The thread of an embedded trainer: owns kernels, model and optimizer; answers requests in order. */
import { parentPort, workerData } from 'node:worker_threads';
import { openKernels } from '../kernels/open.ts';
import { countParameters } from '../model/weights.ts';
import type { CallName, FromTrainer, ToTrainer, TrainerCalls, TrainerSetup } from './trainer-messages.ts';
import { TrainingEngine } from './training-engine.ts';

type Handlers = { [K in CallName]: (request: TrainerCalls[K]['request']) => TrainerCalls[K]['reply'] };

const port = parentPort!;
const say = (message: FromTrainer) => port.postMessage(message);
const describe = (error: unknown) => ({ name: (error as Error).name, message: (error as Error).message });

async function main(setup: TrainerSetup): Promise<void> {
  const kernels = await openKernels({
    ...(setup.threads === undefined ? {} : { threads: setup.threads }),
    ...(setup.kernels === undefined ? {} : { kind: setup.kernels }),
    log: (line) => say({ kind: 'log', line }),
  });
  const engine = new TrainingEngine(kernels, setup.training);
  const stopIf = (abandoned: Int32Array) => () => {
    if (Atomics.load(abandoned, 0)) throw Object.assign(new Error('abandoned'), { name: 'AbortError' });
  };
  const handlers: Handlers = {
    score: ({ rows, options, images, abandoned }) =>
      engine.score(rows, { ...options, images, checkpoint: stopIf(abandoned) }),
    forward: ({ rows, options, images, abandoned }) =>
      engine.forward(rows, { ...options, images, checkpoint: stopIf(abandoned) }),
    backward: ({ pass, gradients }) => void engine.backward(pass, gradients),
    discard: ({ pass }) => void engine.discard(pass),
    optimStep: (adam) => engine.optimStep(adam),
    publish: () => engine.publish(),
    adapter: () => engine.adapter(),
    save: ({ directory }) => void engine.save(directory),
    load: ({ directory }) => void engine.load(directory),
    memory: () => ({ peakBytes: kernels.peakBytes }),
    close: () => void engine.close(),
  };
  const answer = async ({ id, call, request }: ToTrainer) => {
    try {
      const value = (handlers[call] as (request: unknown) => unknown)(request);
      if (call === 'close') await kernels.close();
      say({ kind: 'reply', id, value });
      if (call === 'close') port.close();
    } catch (error) {
      say({ kind: 'failed', id, error: describe(error) });
    }
  };
  port.on('message', (message: ToTrainer) => void answer(message));
  say({
    kind: 'ready',
    description: kernels.description,
    parameters: countParameters(engine.config),
    sees: engine.config.vision !== undefined,
  });
}

main(workerData as TrainerSetup).catch((error) => {
  say({ kind: 'broken', error: describe(error) });
  port.close();
});

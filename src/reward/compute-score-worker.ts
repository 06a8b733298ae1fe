import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../lib/error-message.ts';
import { loadModule } from '../lib/load-export.ts';

const { path, name, directory, gives } = workerData as {
  path: string;
  name: string;
  directory: string;
  gives: 'score' | 'numbers';
};
const module = loadModule(path, directory, 'rewards.module');

parentPort!.on('message', async (given: readonly unknown[]) => {
  try {
    const compute = (await module)[name] as (...given: readonly unknown[]) => unknown;
    const result = await compute(...given);
    parentPort!.postMessage({ value: gives === 'score' ? readResult(result) : result });
  } catch (cause) {
    parentPort!.postMessage({ error: messageOf(cause) });
  }
});

parentPort!.postMessage({ ready: true });

/** A number is logged as `acc` too, as verl does; of a mapping all that is a number, truth included. */
function readResult(result: unknown): unknown {
  if (typeof result !== 'object' || result === null) return { score: Number(result), acc: Number(result) };
  const numbers = Object.entries(result).flatMap(([key, value]) =>
    typeof value === 'number' || typeof value === 'boolean' || key === 'score' ? [[key, Number(value)]] : [],
  );
  return 'score' in result ? Object.fromEntries(numbers) : Number.NaN;
}

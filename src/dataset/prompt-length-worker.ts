import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../lib/error-message.ts';
import type { CounterModule, CountTokens, Prompt } from './token-counter.ts';

const { module, name, argument } = workerData as CounterModule;

async function makeCounter(): Promise<CountTokens> {
  const loaded = (await import(module)) as Record<string, unknown>;
  const make = loaded[name];
  if (typeof make !== 'function') throw new Error(`there is no function ${name} in it`);
  return (await make(argument)) as CountTokens;
}

const counter = makeCounter();
counter.catch(() => {}); // reported with the first request

parentPort!.on('message', async ({ id, prompts }: { id: number; prompts: Prompt[] }) => {
  try {
    const count = await counter;
    const tokens: number[] = [];
    for (const { messages, tools } of prompts) tokens.push(await count(messages, tools));
    parentPort!.postMessage({ id, tokens });
  } catch (error) {
    parentPort!.postMessage({ id, error: messageOf(error) });
  }
});

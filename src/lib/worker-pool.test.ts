import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { workerPool } from './worker-pool.ts';

/** Answers a question with the thread's number, then does what the question says. */
const start = () =>
  new Worker(
    `const { parentPort, threadId } = require('node:worker_threads');
     parentPort.on('message', (question) => {
       parentPort.postMessage({ value: threadId });
       if (question === 'reject') setTimeout(() => Promise.reject(new Error('late')), 20);
       if (question === 'leave') setTimeout(() => process.exit(0), 20);
     });
     parentPort.postMessage({ ready: true });`,
    { eval: true },
  );

test.each(['reject', 'leave'])('a thread that ends while it is idle (%s) is replaced', async (question) => {
  const pool = workerPool(start, 1);
  try {
    const first = await pool.ask<number>(question, {});
    await new Promise((resolve) => setTimeout(resolve, 200));
    const second = await pool.ask<number>('stay', { milliseconds: 10_000 });
    expect(second).not.toBe(first);
    expect(await pool.ask<number>('stay', {})).toBe(second);
  } finally {
    await pool.close();
  }
});

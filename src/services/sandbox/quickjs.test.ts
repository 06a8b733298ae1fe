import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import { openSandbox } from './open-sandbox.ts';

/** Processes that this one has started and that are still there. */
const children = () =>
  readdirSync('/proc').filter((name) => {
    try {
      const [, parent] = /\) \w (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? [];
      return /^\d+$/.test(name) && Number(parent) === process.pid;
    } catch {
      return false; // it ended while we looked
    }
  }).length;

test.skipIf(process.platform !== 'linux')(
  'a hundred programs at once share a few processes, and each gets its own answer',
  { timeout: 180_000 },
  async () => {
    const before = children();
    const sandbox = await openSandbox('javascript', { boundary: 'interpreter' });
    const numbers = Array.from({ length: 100 }, (_, number) => number);
    let most = 0;
    const results = await Promise.all(
      numbers.map(async (number) => {
        const result = await sandbox.run(`console.log(${number} * 7)`);
        most = Math.max(most, children() - before);
        return result.stdout;
      }),
    );
    expect(results).toEqual(numbers.map((number) => `${number * 7}\n`));
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(Math.max(8, 2 * availableParallelism()));
    await sandbox.close();
  },
);

import { expect, test } from 'vitest';
import type { WorkerConnection } from './connection.ts';
import { type GroupSource, WorkerGroup } from './worker-group.ts';

/** Answers `open` at once and `close` never: only the end of the connection ends that call. */
function slowSource() {
  let starts = 0;
  const source: GroupSource = {
    reach: async () => {
      starts++;
      let lose: (error: Error) => void = () => {};
      const connection = {
        description: 'a worker',
        lost: undefined as object | undefined,
        call: (name: string) =>
          name === 'open'
            ? Promise.resolve({})
            : new Promise((_, reject) => {
                lose = reject;
              }),
        close: () => {
          connection.lost = {};
          lose(new Error('the trainer is closed'));
        },
      };
      return { connection: connection as unknown as WorkerConnection, stop: async () => {} };
    },
  };
  return { source, starts: () => starts };
}

test('two models closed at once end the group, and no other is started', async () => {
  const { source, starts } = slowSource();
  const lines: string[] = [];
  const group = new WorkerGroup(source, 5, (line) => lines.push(line));
  await group.open('policy', {});
  await group.open('reference', {});
  await Promise.all([group.close('reference'), group.close('policy')]);
  await expect(group.call(async () => 1)).rejects.toThrow('the trainer is closed');
  expect(starts()).toBe(1);
  expect(lines).toEqual(['a worker']);
});

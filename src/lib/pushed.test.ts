import { expect, test } from 'vitest';
import { pushed } from './pushed.ts';

test('what is pushed comes in order, before the result', async () => {
  const items = pushed<number, string>(async (push) => {
    push(1);
    await Promise.resolve();
    push(2);
    push(3);
    return 'done';
  });
  const seen: unknown[] = [];
  for (;;) {
    const { value, done } = await items.next();
    seen.push(value);
    if (done) break;
  }
  expect(seen).toEqual([1, 2, 3, 'done']);
});

test('what the work throws comes after what it has pushed', async () => {
  const items = pushed<number, never>(async (push) => {
    push(1);
    throw new Error('broken');
  });
  expect(await items.next()).toEqual({ value: 1, done: false });
  await expect(items.next()).rejects.toThrow('broken');
});

test('leaving the loop early stops the work', async () => {
  let isStopped = false;
  const endless = pushed<number, void>(
    (push) => {
      push(1);
      return new Promise(() => {});
    },
    () => {
      isStopped = true;
    },
  );
  for await (const item of endless) if (item === 1) break;
  expect(isStopped).toBe(true);
});

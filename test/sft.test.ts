import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { arrayDataset, embedded, type Message, sft } from 'rollcall';
import type { Trainer } from 'rollcall/ports';
import { tabularTrainer } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { tinyModel } from './tiny-model.ts';

const rows = ['a', 'b', 'c', 'd'].map((letter) => ({
  messages: [
    { role: 'user', content: letter },
    { role: 'assistant', content: letter.repeat(3) },
  ] satisfies Message[],
}));

test('demonstrations are learned, and a resumed warm start ends with the same loss', async () => {
  const model = await tinyModel();
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-sft-'));
  const losses = async (run: string, steps: number, resume = false, stopAt = steps) => {
    const seen: number[] = [];
    const options = { model, demonstrations: arrayDataset(rows), runDir: join(folder, run), steps, resume };
    for await (const report of sft({
      ...options,
      demonstrationsPerStep: 4,
      optimizer: { learningRate: 1e-2, schedule: 'constant' },
      trainer: embedded({ threads: 1 }).trainer,
    })) {
      seen.push(report.metrics['train/loss']!);
      if (report.step === stopAt) break;
    }
    return seen;
  };
  const whole = await losses('whole', 30);
  expect(whole.at(-1)).toBeLessThan(whole[0]! / 3);
  await losses('stopped', 30, false, 11);
  expect((await losses('stopped', 30, true)).at(-1)).toBe(whole.at(-1));
});

test('a row without an assistant message is named, and the run can be started again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-sft-'));
  const demonstrations = arrayDataset(
    [{ messages: [{ role: 'user', content: 'x' }] satisfies Message[] }],
    'rows',
  );
  const options = { model: await tinyModel(), runDir: join(folder, 'run'), steps: 1 };
  const { trainer } = embedded({ threads: 1 });
  const run = sft({ ...options, demonstrations, trainer });
  await expect(run.next()).rejects.toThrow(/rows, row 0: a demonstration has `messages`/);
  const righted = sft({ ...options, demonstrations: arrayDataset(rows), demonstrationsPerStep: 4, trainer });
  expect((await righted.next()).value).toMatchObject({ step: 1 }); // in the same directory
  await righted.return();
});

test('no forward pass exceeds what the trainer takes in one call', async () => {
  const passes: number[] = [];
  const inner = tabularTrainer({ vocabulary: 264 });
  const trainer: Trainer = {
    ...inner,
    tokensPerCall: 60, // a demonstration has 24 to 26 tokens
    forward: (given, options) => {
      passes.push(given.reduce((sum, { ids }) => sum + ids.length, 0));
      return inner.forward(given, options);
    },
  };
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-sft-'));
  const demonstrations = arrayDataset(rows);
  const options = { model: await tinyModel(), runDir: join(folder, 'run'), demonstrations, steps: 1 };
  const limited = { name: 'limited', open: async () => trainer };
  for await (const { step } of sft({ ...options, demonstrationsPerStep: 4, trainer: limited }))
    expect(step).toBe(1);
  expect(passes).toHaveLength(2);
  expect(Math.max(...passes)).toBeLessThanOrEqual(60);
});

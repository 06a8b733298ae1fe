import { expect, test } from 'vitest';
import { tabularPolicy } from '../../testing/tabular-task.ts';
import type { Trainer } from './trainer.ts';
import { updateSupervised } from './update-supervised.ts';

const ADAM = { learningRate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 };
const demonstration = (ids: number[], from: number, weight?: number) => ({
  ids: Int32Array.from(ids),
  trained: Uint8Array.from(ids, (_, at) => (at >= from ? 1 : 0)),
  ...(weight === undefined ? {} : { weight }),
});
const demonstrations = [
  demonstration([0, 1, 2, 3], 1),
  demonstration([4, 5, 4], 2),
  demonstration([2, 3], 1),
];

test('the loss is the mean of −log p over the trained tokens, and falls', async () => {
  const trainer = tabularPolicy();
  const nll = (from: number, to: number) => -Math.log(trainer.probabilities(from)[to]!);
  const expected = (nll(0, 1) + nll(1, 2) + nll(2, 3) + nll(5, 4) + nll(2, 3)) / 5;
  const step = () => updateSupervised({ trainer, demonstrations, adam: ADAM, tokensPerMicroBatch: 5 });
  const first = await step();
  expect(first['train/loss']).toBeCloseTo(expected, 5);
  expect(first['train/tokens']).toBe(5);
  for (let i = 0; i < 50; i++) await step();
  expect((await step())['train/loss']).toBeLessThan(0.1);
});

test('no call holds more tokens than the trainer takes', async () => {
  const policy = tabularPolicy();
  const rowsPerCall: number[] = [];
  const trainer: Trainer = {
    ...policy,
    tokensPerCall: 4,
    forward: (rows, options) => {
      rowsPerCall.push(rows.length);
      return policy.forward(rows, options);
    },
  };
  await updateSupervised({ trainer, demonstrations, adam: ADAM, tokensPerMicroBatch: 1000 });
  expect(rowsPerCall).toEqual([1, 1, 1]); // of 4, 3 and 2 tokens
});

test('the step does not depend on micro-batches', async () => {
  const after = async (tokensPerMicroBatch: number) => {
    const trainer = tabularPolicy();
    await updateSupervised({ trainer, demonstrations, adam: ADAM, tokensPerMicroBatch });
    return trainer.logits;
  };
  const whole = await after(1000);
  (await after(1)).forEach((logit, i) => {
    expect(logit).toBeCloseTo(whole[i]!, 6);
  });
});

test('a weight counts an example that many times', async () => {
  const gradient = async (list: typeof demonstrations) => {
    const trainer = tabularPolicy();
    const caught: number[][] = [];
    const optimStep = async () => {
      caught.push([...trainer.gradient]);
      return { gradNorm: 0, skipped: false };
    };
    await updateSupervised({
      trainer: { ...trainer, optimStep },
      demonstrations: list,
      adam: ADAM,
      tokensPerMicroBatch: 9,
    });
    return caught[0]!;
  };
  const twice = await gradient([demonstrations[0]!, demonstrations[0]!, demonstrations[1]!]);
  const weighed = await gradient([{ ...demonstrations[0]!, weight: 2 }, demonstrations[1]!]);
  weighed.forEach((value, i) => {
    expect(value).toBeCloseTo(twice[i]!, 6);
  });
});

test('nothing to learn, and a loss that is not finite, are errors', async () => {
  const trainer = tabularPolicy();
  const run = (list: typeof demonstrations) =>
    updateSupervised({ trainer, demonstrations: list, adam: ADAM, tokensPerMicroBatch: 9 });
  await expect(run([demonstration([1, 2], 5)])).rejects.toThrow(/1 demonstrations have no token to learn/);
  trainer.logits[1] = Number.NaN;
  await expect(run(demonstrations)).rejects.toThrow(/the loss of demonstrations 0 to 2 is NaN/);
});

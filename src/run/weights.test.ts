import { byteModel, scriptedEngine, tabularTrainer } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { type Gateway, gateway } from '../gateway/gateway.ts';
import { grpo } from '../training/algorithms.ts';
import { Weights } from './weights.ts';

test('servers that are to sleep while the trainer works do, and wake when it fails too', async () => {
  const seen: string[] = [];
  const note = (what: string) => async () => void seen.push(what);
  const engine = scriptedEngine({ tokenizer: byteModel().tokenizer, reply: () => 'Yes.' });
  const server = gateway([Object.assign(engine, { sleep: note('sleep'), wake: note('wake') })]);
  const models = { trainer: tabularTrainer({ vocabulary: 4 }), algorithm: grpo() };
  const weights = new Weights({ models, server, sleepWhileTraining: true, runDir: 'unused' });
  await weights.train(note('train'));
  expect(seen).toEqual(['sleep', 'train', 'wake']);
  await expect(weights.train(() => Promise.reject(new Error('no memory')))).rejects.toThrow('no memory');
  expect(seen.slice(3)).toEqual(['sleep', 'wake']);
  const awake = new Weights({ models, server, runDir: 'unused' });
  await awake.train(note('train'));
  expect(seen.slice(5)).toEqual(['train']);
});

test('what the update has scored is not scored again to see that weights have arrived', async () => {
  const trainer = tabularTrainer({ vocabulary: 4 });
  let scored = 0;
  const score = trainer.score.bind(trainer);
  trainer.score = (...given) => {
    scored++;
    return score(...given);
  };
  const server = { update: async () => {}, servers: () => [] } as unknown as Gateway;
  const canaries = [Int32Array.from([0, 1, 2])];
  const models = { trainer, algorithm: grpo() };
  const weights = new Weights({ models, server, runDir: 'unused', canaries });
  const update = { metrics: {}, notices: [], state: { watched: {} }, tokens: [] };
  await weights.publish(update, 1);
  expect(scored).toBe(1);
  await weights.publish({ ...update, promptLogprobs: [new Float32Array(3)] }, 2);
  expect(scored).toBe(1);
});

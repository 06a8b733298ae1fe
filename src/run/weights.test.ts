import { byteModel, scriptedEngine, tabularTrainer } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { type Gateway, gateway } from '../gateway/gateway.ts';
import { grpo } from '../training/algorithms.ts';
import { Weights } from './weights.ts';

test('servers that are to sleep while the trainer works do, and wake when it rests or fails', async () => {
  const seen: string[] = [];
  const note = (what: string) => async () => void seen.push(what);
  const engine = scriptedEngine({ tokenizer: byteModel().tokenizer, reply: () => 'Yes.' });
  const server = gateway([Object.assign(engine, { sleep: note('sleep'), wake: note('wake') })]);
  const trainer = Object.assign(tabularTrainer({ vocabulary: 4 }), { rest: note('rest') });
  const reference = Object.assign(tabularTrainer({ vocabulary: 4 }), { rest: note('reference rests') });
  const models = { trainer, reference, critic: trainer, algorithm: grpo() };
  const weights = new Weights({ models, server, sleepWhileTraining: true, runDir: 'unused' });
  const rests = ['rest', 'reference rests'];
  await weights.train(note('train'));
  expect(seen.splice(0)).toEqual(['sleep', ...rests, 'train', ...rests, 'wake']);
  await expect(weights.train(() => Promise.reject(new Error('no memory')))).rejects.toThrow('no memory');
  expect(seen.splice(0)).toEqual(['sleep', ...rests, 'wake']);
  const awake = new Weights({ models, server, runDir: 'unused' });
  await awake.train(note('train'));
  expect(seen).toEqual(['train']);
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

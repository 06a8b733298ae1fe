import { expect, test } from 'vitest';
import { assembleTrainer } from './trainers.ts';

test('a trainer is made by its name, with its own options', () => {
  const options = { threads: 2, lora: { rank: 8, alpha: 16, targets: ['q_proj'] } };
  expect(assembleTrainer({ name: 'embedded', options }).name).toBe('embedded');
  expect(assembleTrainer({ name: 'torch', options: { ranks: 2, compile: true } }).name).toBe('torch');
  const pushing = { push: ['http://127.0.0.1:8000'], pushBy: 'group', fused: true };
  expect(assembleTrainer({ name: 'torch', options: pushing }).name).toBe('torch');
  const inFour = { lora: { rank: 8 }, baseBits: 4 };
  expect(assembleTrainer({ name: 'torch', options: inFour }).name).toBe('torch');
  const rented = { url: 'http://127.0.0.1:8000', model: 'Qwen/Qwen3-8B', server: 'skyrl-jax' };
  expect(assembleTrainer({ name: 'tinker', options: rented }).servers?.name).toBe('tinker');
});

test('an unknown trainer, and an option that it does not have, are refused by name', () => {
  expect(() => assembleTrainer({ name: 'megatron', options: {} })).toThrow(
    'trainer.name is "megatron"; use one of embedded',
  );
  expect(() => assembleTrainer({ name: 'embedded', options: { thread: 2 } })).toThrow(
    /^trainer\.options: .*"thread"/,
  );
  expect(() => assembleTrainer({ name: 'embedded', options: { lora: { rank: 0, alpha: 1 } } })).toThrow(
    /^trainer\.options\.lora\.rank: /,
  );
  expect(() => assembleTrainer({ name: 'torch', options: { lora: { rank: 8 }, baseBits: 8 } })).toThrow(
    /^trainer\.options\.baseBits: .*4/,
  );
  expect(() => assembleTrainer({ name: 'torch', options: { baseBits: 4 } })).toThrow('needs lora');
  for (const other of ['offload', 'compile']) {
    const options = { lora: { rank: 8 }, baseBits: 4, [other]: true };
    expect(() => assembleTrainer({ name: 'torch', options })).toThrow(`not implemented with ${other}`);
  }
});

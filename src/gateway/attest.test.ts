import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createRandom } from '../lib/random.ts';
import { Attestor } from './attest.ts';
import { Checksums, stayedBehind } from './checksums.ts';

const TOKENS = 120;

/** Log-probs of a trainer that moves a little each step, and of servers with noise. */
function simulate(seed: number, drift: number, noise: number) {
  const source = createRandom(seed);
  const random = () => source.next();
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  let trainer = Float32Array.from({ length: TOKENS }, () => -3 + normal());
  return {
    now: () => trainer,
    step: () => {
      trainer = trainer.map((value) => value + drift * normal());
    },
    seen: (by: Float32Array) => by.map((value) => value + noise * normal()),
  };
}

test('a server that ignores updates is found within 5 syncs, and a true one never fails', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), fc.constantFrom(0.01, 0.02, 0.1), (seed, drift) => {
      const { now, step, seen } = simulate(seed, drift, 0.02);
      const attestor = new Attestor([]);
      const first = now();
      attestor.judge('true', seen(first), first);
      attestor.judge('stale', seen(first), first);
      let found = false;
      for (let sync = 1; sync <= 5; sync++) {
        step();
        expect(attestor.judge('true', seen(now()), now()).state).not.toBe('failed');
        const { state } = attestor.judge('stale', seen(first), now());
        expect(state).not.toBe('proved');
        found ||= state === 'failed';
      }
      expect(found).toBe(true);
    }),
    { numRuns: 60 },
  );
});

test('without noise one sync decides either way, however small the step', () => {
  const { now, step } = simulate(3, 1e-3, 0);
  const attestor = new Attestor([]);
  const first = now();
  for (const name of ['true', 'stale']) attestor.judge(name, first, first);
  step();
  expect(attestor.judge('true', now(), now()).state).toBe('proved');
  expect(attestor.judge('stale', first, now()).state).toBe('failed');
});

test('weights that did not move prove nothing, and another model is seen at once', () => {
  const { now, seen } = simulate(4, 0, 0.02);
  const attestor = new Attestor([]);
  for (let sync = 0; sync < 4; sync++) {
    expect(attestor.judge('a', seen(now()), now()).state).toBe('unproven');
  }
  const other = now().map((value) => value - 2);
  expect(attestor.judge('b', other, now())).toMatchObject({
    state: 'failed',
    why: expect.stringContaining('2.00 off'),
  });
});

test('a server that keeps part of the old weights is distinguished from one that has all and from one that has none', () => {
  const { now, step, seen } = simulate(5, 0.1, 1e-5);
  const attestor = new Attestor([]);
  const first = now();
  for (const name of ['true', 'part']) attestor.judge(name, seen(first), first);
  step();
  // As a model whose tied output layer stays behind: about a tenth of the move is missing.
  const part = now().map((value, at) => value - 0.09 * (value - first[at]!));
  expect(attestor.judge('true', seen(now()), now()).state).toBe('proved');
  expect(attestor.judge('part', seen(part), now())).toMatchObject({
    state: 'failed',
    why: expect.stringMatching(
      /^it took only part of the weights: its log-probs are \S+e-3 off, and were \S+e-6 off/,
    ),
  });
});

test('rounding that repeats itself while the weights hardly move does not convict a sound server', () => {
  const { now, seen } = simulate(6, 0, 0.03);
  const first = now();
  const rounding = seen(first).map((value, at) => value - first[at]!);
  const attestor = new Attestor([]);
  for (let sync = 0; sync < 200; sync++) {
    // Straight against the rounding, the direction in which a sound server looks most like an old one.
    const trainer = first.map((value, at) => value - 1e-4 * sync * rounding[at]!);
    const server = trainer.map((value, at) => value + rounding[at]!);
    expect(attestor.judge('a', server, trainer).state).not.toBe('failed');
  }
});

test('the tensors that stayed behind are named where the server tells checksums, as SGLang and vLLM do', async () => {
  const checksums = new Checksums();
  const saying = (sums: object) => ({ checksum: async () => JSON.stringify(sums) });
  const sglang = (head: string, body: string) => ({
    success: true,
    ranks: [{ checksums: { 'lm_head.weight': head, 'model.norm.weight': body } }],
  });
  expect(await checksums.compare('a', saying(sglang('1', '2')))).toEqual({ changed: undefined, kept: [] });
  const part = await checksums.compare('a', saying(sglang('1', '3')));
  expect(part).toEqual({ changed: true, kept: ['lm_head.weight'] });
  expect(stayedBehind(part.kept)).toBe('by its checksums these stayed as they were: lm_head.weight');
  expect(stayedBehind([])).toContain('an output layer (lm_head) that is tied to the embedding');

  const nothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  const vllm = (norm: string) => ({ checksums: { 'tp0:model.o_proj.weight': nothing, 'tp0:norm': norm } });
  await checksums.compare('b', saying(vllm('1')));
  expect(await checksums.compare('b', saying(vllm('2')))).toEqual({ changed: true, kept: [] });
});

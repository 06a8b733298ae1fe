/** Inputs that a fuzzer found (`npm run prove fuzz`), each once a crash or a hang: each is answered now, or refused in our words. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutate } from '../scripts/fuzz/mutate.ts';
import type { FuzzTarget } from '../scripts/fuzz/target.ts';
import { RollcallError } from '../src/errors.ts';
import { createRandom } from '../src/lib/random.ts';

const folder = new URL('data/fuzz/', import.meta.url);
const found = readdirSync(folder).flatMap((target) =>
  readdirSync(new URL(target, folder)).map((name) => [target, name] as const),
);

test.each(found)('%s: %s', async (name, file) => {
  const { target } = (await import(`../scripts/fuzz/targets/${name}.ts`)) as { readonly target: FuzzTarget };
  const input = readFileSync(new URL(`${name}/${file}`, folder));
  const error = await Promise.resolve(input)
    .then((bytes) => target.run(bytes))
    .then(
      () => undefined,
      (reason: unknown) => reason as Error,
    );
  if (error && !target.isOurs?.(error)) expect(error).toBeInstanceOf(RollcallError);
});

test('the fuzzer changes its inputs, the same way for the same seed, and lets them grow no further than 4 KiB', () => {
  const input = Buffer.from('some 12 words');
  const grow = () => {
    const random = createRandom(3);
    const made: Buffer[] = [input];
    for (let i = 0; i < 200; i++)
      made.push(mutate(made.at(-1)!, made[i >> 1]!, [Buffer.from('word')], random));
    return made.map((bytes) => bytes.toString('latin1'));
  };
  const made = grow();
  expect(made.join()).toBe(grow().join());
  expect(new Set(made).size).toBeGreaterThan(150);
  expect(Math.max(...made.map(({ length }) => length))).toBe(4096);
});

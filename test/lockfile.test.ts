import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

interface Locked {
  readonly packages: Readonly<
    Record<string, { readonly optionalDependencies?: Readonly<Record<string, string>> }>
  >;
}

// npm leaves out of the lockfile what its registry could not give it at that moment, and `npm ci` then refuses to work.
test('the lockfile has an entry for every platform of every dependency', () => {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as Locked;
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages),
    ),
  );
  expect(missing).toEqual([]);
});

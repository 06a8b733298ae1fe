import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { licencesPage } from '../scripts/licences.ts';

interface Locked {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly optionalDependencies?: Readonly<Record<string, string>>;
        readonly hasInstallScript?: boolean;
        readonly integrity?: string;
        readonly dev?: boolean;
      }
    >
  >;
}

const lockfile = readFileSync('package-lock.json', 'utf8');
const { packages } = JSON.parse(lockfile) as Locked;
const installed = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);

// npm leaves out of the lockfile what its registry could not give it at that moment, and `npm ci` then refuses to work.
test('the lockfile has an entry for every platform of every dependency', () => {
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages),
    ),
  );
  expect(missing).toEqual([]);
});

test('nothing that is installed with the package runs a script at that moment, and all of it has a checksum', () => {
  expect(installed.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path)).toEqual([]);
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
  expect(Object.keys(scripts).filter((name) => /^(pre|post)?install$|^prepare$/.test(name))).toEqual([]);
  // Builds for other platforms have none where a registry did not give one.
  const unsealed = installed.filter(
    ([path, { integrity }]) => !integrity && !path.includes('@napi-rs/canvas-'),
  );
  expect(unsealed.map(([path]) => path)).toEqual([]);
});

test('LICENCES.md lists what the lockfile has, under licences that a company may use', () => {
  const page = licencesPage(lockfile);
  expect(readFileSync('LICENCES.md', 'utf8')).toBe(page);
  const licences = new Set([...page.matchAll(/\| ([^|]+) \|$/gm)].map(([, licence]) => licence));
  licences.delete('licence');
  licences.delete('---');
  expect([...licences].sort()).toEqual(['Apache-2.0', 'BSD-3-Clause', 'ISC', 'MIT', 'MPL-2.0']);
});

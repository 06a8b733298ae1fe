import { expect, test } from 'vitest';
import { ConfigError } from '../errors.ts';
import { loadOptional } from './optional-package.ts';

const missing = (name: string) =>
  Object.assign(new Error(`Cannot find package '${name}' imported from here`), {
    code: 'ERR_MODULE_NOT_FOUND',
  });

test('the error for a missing package has the command that installs it', async () => {
  const load = loadOptional('An A2A agent', ['@a2a-js/sdk'], () => Promise.reject(missing('@a2a-js/sdk')));
  await expect(load).rejects.toThrow(ConfigError);
  await expect(load).rejects.toThrow(
    'An A2A agent needs packages that are not installed: npm install @a2a-js/sdk',
  );
});

test('another error, also that of another missing package, stays what it is', async () => {
  const other = missing('their-dependency');
  await expect(loadOptional('It', ['mine'], () => Promise.reject(other))).rejects.toBe(other);
  await expect(loadOptional('It', ['mine'], async () => 7)).resolves.toBe(7);
});

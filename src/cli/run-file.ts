import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '../errors.ts';
import { messageOf } from '../lib/error-message.ts';
import { checkDatasets, type TrainOptions } from '../options.ts';

/**
 * A run file is a module that exports `options` (or exports them by default): the argument of `train()`. Exporting a
 * function `(…) => options`, also async, is fine where something must be prepared first.
 */
export async function loadRunFile(path: string): Promise<TrainOptions> {
  const file = resolve(path);
  if (!existsSync(file)) throw new ConfigError(`there is no run file ${file}`);
  const module = (await import(pathToFileURL(file).href).catch((error: unknown) => {
    const message = messageOf(error);
    throw new ConfigError(`${path} cannot be loaded: ${message}`, { cause: error });
  })) as Record<string, unknown>;
  const exported = module['options'] ?? module['default'];
  const options = typeof exported === 'function' ? await exported() : exported;
  if (typeof options !== 'object' || options === null) {
    const names = Object.keys(module).join(', ') || 'nothing';
    throw new ConfigError(
      `${path} exports ${names}; a run file exports \`options\`, the argument of train()`,
    );
  }
  checkDatasets(options as TrainOptions);
  const sha256 = createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
  return { ...(options as TrainOptions), config: { path: file, sha256 } };
}

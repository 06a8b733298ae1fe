import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '../errors.ts';
import { messageOf } from './error-message.ts';
import { findNear, placesLookedAt } from './find-near.ts';

/** A module of the user's, its path relative to `directory`. `where` says who asks, for the error. */
export async function loadModule(
  path: string,
  directory: string,
  where: string,
): Promise<Readonly<Record<string, unknown>>> {
  if (path.endsWith('.py'))
    throw new ConfigError(`${where}: ${path} is Python; write the module in TypeScript (docs/from-verl.md)`);
  const file = findNear(path, directory);
  if (!existsSync(file))
    throw new ConfigError(`${where}: there is no file ${placesLookedAt(path, directory)}`);
  return import(pathToFileURL(file).href).catch((cause: unknown) => {
    const why = messageOf(cause);
    throw new ConfigError(`${where}: ${file} cannot be loaded: ${why}`, { cause });
  });
}

/** What `path.ts#Export` names. */
export async function loadExport(reference: string, directory: string, where: string): Promise<unknown> {
  const [path, name, ...more] = reference.split('#');
  if (!path || !name || more.length > 0) {
    throw new ConfigError(
      `${where}: '${reference}' does not name an export; write \`path.ts#Export\`, the path relative to ${directory}`,
    );
  }
  const module = await loadModule(path, directory, where);
  if (!(name in module)) {
    const names = Object.keys(module).join(', ') || 'nothing';
    throw new ConfigError(`${where}: ${path} does not export ${name}; it exports ${names}`);
  }
  return module[name];
}

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '../errors.ts';

/** What `path.ts#Export` names, the path relative to `directory`. `where` says who asks, for the error. */
export async function loadExport(reference: string, directory: string, where: string): Promise<unknown> {
  const [path, name, ...more] = reference.split('#');
  if (!path || !name || more.length > 0) {
    throw new ConfigError(
      `${where}: '${reference}' does not name an export; write \`path.ts#Export\`, the path relative to ${directory}`,
    );
  }
  const file = resolve(directory, path);
  if (!existsSync(file)) throw new ConfigError(`${where}: there is no file ${file}`);
  const module = (await import(pathToFileURL(file).href).catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`${where}: ${file} cannot be loaded: ${why}`, { cause });
  })) as Record<string, unknown>;
  if (!(name in module)) {
    const names = Object.keys(module).join(', ') || 'nothing';
    throw new ConfigError(`${where}: ${file} does not export ${name}; it exports ${names}`);
  }
  return module[name];
}

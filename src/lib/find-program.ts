import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The path of a program, looked for where a shell would. */
export function findProgram(name: string, path = process.env['PATH']): string | undefined {
  return (path ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}

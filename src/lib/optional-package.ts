import { ConfigError } from '../errors.ts';

/**
 * Loads packages that only some runs need, which is why they are not installed with this one. Where one is missing, the
 * error names the command that installs all of them.
 */
export async function loadOptional<M>(
  what: string,
  packages: readonly string[],
  load: () => Promise<M>,
): Promise<M> {
  try {
    return await load();
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
    if (!isMissing || !packages.some((name) => cause.message.includes(name))) throw cause;
    const names = packages.join(' ');
    throw new ConfigError(`${what} needs packages that are not installed: npm install ${names}`, { cause });
  }
}

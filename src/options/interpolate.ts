import { ConfigError } from '../errors.ts';
import type { Leaf } from './yaml-file.ts';

/** `${oc.env:NAME}`, `${oc.env:NAME,default}` and `${a.b}` in values of a file, as OmegaConf has them. */
export function interpolate(
  leaves: readonly Leaf[],
  environment: Readonly<Record<string, string | undefined>>,
): Leaf[] {
  const byKey = new Map(leaves.map((leaf) => [leaf.key, leaf]));
  const resolve = (value: unknown, where: string, depth: number): unknown => {
    if (Array.isArray(value)) return value.map((item) => resolve(item, where, depth));
    if (typeof value !== 'string' || !value.includes('${')) return value;
    if (depth > 20) throw new ConfigError(`${where}: ${value} refers to itself`);
    const lookUp = (reference: string): unknown => {
      const variable = /^oc\.env:([^,]+)(?:,(.*))?$/s.exec(reference);
      if (variable) {
        const found = environment[variable[1]!] ?? variable[2];
        if (found === undefined)
          throw new ConfigError(`${where}: the environment variable ${variable[1]} is not set`);
        return found;
      }
      if (reference === 'HOME') return environment.HOME ?? '~';
      const leaf = byKey.get(reference);
      if (!leaf)
        throw new ConfigError(`${where}: \${${reference}} refers to a key that this file does not set`);
      return resolve(leaf.value, leaf.where, depth + 1);
    };
    const whole = /^\$\{([^{}]+)\}$/.exec(value);
    if (whole) return lookUp(whole[1]!);
    return value.replace(/\$\{([^{}]+)\}/g, (_, reference: string) => String(lookUp(reference)));
  };
  return leaves.map((leaf) => ({ ...leaf, value: resolve(leaf.value, leaf.where, 0) }));
}

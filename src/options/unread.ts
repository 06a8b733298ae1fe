import { KNOWN_OPTIONS } from './known-options.ts';
import { shown } from './verl-row.ts';

/**
 * Settings that this build understands and cannot honour yet, with what to do instead. Set to anything but their
 * default they are refused by `train`, never ignored. Whoever builds the part takes its lines out.
 */
export const UNREAD: Readonly<Record<string, string>> = {
  'algorithm.critic.model': 'a critic starts from the policy',
};

/** One line for each setting that somebody gave and nothing reads. */
export function refuseUnread(
  given: ReadonlyMap<string, { readonly value: unknown; readonly key: string }>,
): string[] {
  return [...given].flatMap(([path, { value, key }]) => {
    const instead = UNREAD[path];
    const unchanged = shown(value) === shown(KNOWN_OPTIONS.get(path)?.default);
    if (instead === undefined || unchanged) return [];
    return [`${key}=${shown(value)}${key === path ? '' : ` (our ${path})`}: not yet: ${instead}`];
  });
}

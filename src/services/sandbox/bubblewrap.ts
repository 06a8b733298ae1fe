/**
 * The boundary that Linux offers: bubblewrap makes new namespaces for processes, network, users, names and messages,
 * with nothing of the disk but what is mounted and no environment; `prlimit` bounds what each process inside may take.
 */
import { existsSync } from 'node:fs';
import { findProgram } from '../../lib/find-program.ts';

export interface BoxPrograms {
  readonly bwrap: string;
  readonly prlimit: string;
}

/** What a machine lacks for it, in words, where it lacks something. */
export function findBoxPrograms(): BoxPrograms | { readonly missing: readonly string[] } {
  const [bwrap, prlimit] = ['bwrap', 'prlimit'].map((name) => findProgram(name));
  if (process.platform === 'linux' && bwrap && prlimit) return { bwrap, prlimit };
  return {
    missing: [
      ...(process.platform === 'linux' ? [] : [`Linux (this is ${process.platform})`]),
      ...(bwrap ? [] : ['bubblewrap (Debian, Ubuntu: apt-get install bubblewrap)']),
      ...(prlimit ? [] : ['prlimit (util-linux)']),
    ],
  };
}

export interface Box {
  /** bubblewrap's words for what of the disk is seen inside. */
  readonly mounts: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Limits of each process inside, as `prlimit` names them. */
  readonly bounds: Readonly<Record<string, number>>;
  readonly directory: string;
  readonly command: readonly string[];
}

const PRLIMIT_INSIDE = '/.prlimit';

export function boxCommand(
  { bwrap, prlimit }: BoxPrograms,
  { mounts, environment, bounds, directory, command }: Box,
): [string, string[]] {
  const variables = Object.entries(environment).flatMap(([name, value]) => ['--setenv', name, value]);
  const walls = [
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--die-with-parent', '--new-session'],
    ...['--cap-drop', 'ALL', '--hostname', 'sandbox', '--clearenv', ...variables],
    ...['--ro-bind', prlimit, PRLIMIT_INSIDE, '--proc', '/proc', '--dev', '/dev', ...mounts],
    ...['--remount-ro', '/dev', '--remount-ro', '/', '--chdir', directory, '--'],
  ];
  const words = Object.entries({ core: 0, memlock: 0, msgqueue: 0, nofile: 64, ...bounds }).map(
    ([name, value]) => `--${name}=${value}`,
  );
  return [bwrap, [...walls, PRLIMIT_INSIDE, ...words, '--', ...command]];
}

/** `/lib` and the like are links into `/usr` there. */
export const usrLinks = (names: readonly string[]): string[] =>
  names.flatMap((name) => (existsSync(`/usr/${name}`) ? ['--symlink', `usr/${name}`, `/${name}`] : []));

const NOBODY = 65_534;

/** Who starts a box: root becomes `nobody` first, because the kernel does not bound the number of root's processes. */
export const boxUser = (): { readonly uid?: number; readonly gid?: number } =>
  process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

export const mebibytes = (count: number): number => Math.round(count * 1024 * 1024);

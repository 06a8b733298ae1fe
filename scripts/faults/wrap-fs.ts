/** Puts itself around the calls of node:fs that the sources make, in whatever style they make them. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** A call as the one around it sees it. */
export interface FsCall {
  readonly op: string;
  /** What kind of call it is: faults differ by it. */
  readonly kind: 'open' | 'read' | 'write' | 'sync' | 'rename' | 'change' | 'look' | 'close';
  readonly path: string;
  /** Of a rename. */
  readonly to?: string;
  /** Of an open. */
  readonly flags?: string;
  readonly data?: Uint8Array;
  /** Of a write; undefined is where the file stands. */
  readonly position?: number;
  readonly style: 'now' | 'later';
  /** Of an open file. */
  readonly handle?: number;
  /** Does the call. */
  real(): unknown;
  /** Does half of a write. */
  half(): unknown;
}

export type Around = (call: FsCall) => unknown;

const KINDS: Readonly<Record<string, FsCall['kind']>> = {
  open: 'open',
  readFile: 'read',
  readdir: 'read',
  read: 'read',
  writeFile: 'write',
  appendFile: 'write',
  write: 'write',
  sync: 'sync',
  datasync: 'sync',
  fsync: 'sync',
  rename: 'rename',
  mkdir: 'change',
  mkdtemp: 'change',
  rm: 'change',
  unlink: 'change',
  truncate: 'change',
  stat: 'look',
  statfs: 'look',
  access: 'look',
  close: 'close',
};

/** Paths of the files that are open, by descriptor. */
const paths = new Map<number, string>();
const bytesOf = (data: unknown): Uint8Array =>
  typeof data === 'string' ? Buffer.from(data) : (data as Uint8Array);
type Anything = (...args: never[]) => unknown;

export async function wrapFs(around: Around): Promise<void> {
  const promises = fs.promises as unknown as Record<string, Anything>;
  const sync = fs as unknown as Record<string, Anything>;
  const probe = await fs.promises.open('/dev/null', 'r');
  const handles = Object.getPrototypeOf(probe) as Record<string, Anything>;
  await probe.close();
  wrapHandles(handles, around);
  for (const [name, kind] of Object.entries(KINDS)) {
    if (promises[name]) wrapPath(promises, name, name, kind, 'later', around);
    const now = `${name}Sync`;
    if (!sync[now]) continue;
    if (['write', 'read', 'fsync', 'close'].includes(name)) wrapDescriptor(sync, now, name, kind, around);
    else wrapPath(sync, now, name, kind, 'now', around);
  }
  syncBuiltinESMExports();
}

function wrapPath(
  object: Record<string, Anything>,
  name: string,
  op: string,
  kind: FsCall['kind'],
  style: FsCall['style'],
  around: Around,
): void {
  const real = object[name] as (...args: unknown[]) => unknown;
  object[name] = ((...args: unknown[]) => {
    const path = String(args[0]);
    const isWhole = op === 'writeFile' || op === 'appendFile';
    const call: FsCall = {
      op,
      kind,
      path,
      style,
      ...(op === 'rename' ? { to: String(args[1]) } : {}),
      ...(op === 'open' ? { flags: String(args[1] ?? 'r') } : {}),
      ...(isWhole ? { data: bytesOf(args[1]), flags: flagOf(args[2], op) } : {}),
      real: () => remember(op, path, real.apply(object, args)),
      half: () =>
        real.apply(object, [args[0], bytesOf(args[1]).subarray(0, bytesOf(args[1]).length >> 1), args[2]]),
    };
    return around(call);
  }) as Anything;
}

const flagOf = (options: unknown, op: string) =>
  (typeof options === 'object' && (options as { flag?: string } | null)?.flag) ||
  (op === 'appendFile' ? 'a' : 'w');

function remember(op: string, path: string, result: unknown): unknown {
  if (op !== 'open') return result;
  const keep = (opened: unknown) => {
    const fd = typeof opened === 'number' ? opened : (opened as { fd: number }).fd;
    paths.set(fd, path);
    return opened;
  };
  return result instanceof Promise ? result.then(keep) : keep(result);
}

function wrapDescriptor(
  object: Record<string, Anything>,
  name: string,
  op: string,
  kind: FsCall['kind'],
  around: Around,
): void {
  const real = object[name] as (...args: unknown[]) => unknown;
  object[name] = ((...args: unknown[]) => {
    const fd = args[0] as number;
    const path = paths.get(fd);
    if (path === undefined) return real.apply(object, args);
    const [, buffer, offset = 0, length] = args as [number, Uint8Array, number?, number?];
    const data =
      op === 'write' ? buffer.subarray(offset, offset + (length ?? buffer.length - offset)) : undefined;
    return around({
      op,
      kind,
      path,
      style: 'now',
      handle: fd,
      ...(data ? { data } : {}),
      real: () => {
        if (op === 'close') paths.delete(fd);
        return real.apply(object, args);
      },
      half: () => real.call(object, fd, data, 0, data!.length >> 1),
    });
  }) as Anything;
}

function wrapHandles(prototype: Record<string, Anything>, around: Around): void {
  for (const op of ['writeFile', 'write', 'read', 'sync', 'datasync', 'stat', 'truncate', 'close']) {
    const real = prototype[op] as (...args: unknown[]) => unknown;
    const kind = KINDS[op]!;
    prototype[op] = function (this: { readonly fd: number }, ...args: unknown[]) {
      const { fd } = this;
      const path = paths.get(fd);
      if (path === undefined) return real.apply(this, args);
      const data = kind === 'write' ? bytesOf(args[0]) : undefined;
      return around({
        op: op === 'writeFile' ? 'write' : op,
        kind,
        path,
        style: 'later',
        handle: fd,
        ...(data ? { data } : {}),
        ...(op === 'write' && typeof args[1] === 'number' ? { position: args[1] } : {}),
        ...(op === 'truncate' ? { position: (args[0] as number | undefined) ?? 0 } : {}),
        real: () => {
          if (op === 'close') paths.delete(fd);
          return real.apply(this, args);
        },
        half: () => real.apply(this, [data!.subarray(0, data!.length >> 1), ...args.slice(1)]),
      });
    } as Anything;
  }
}

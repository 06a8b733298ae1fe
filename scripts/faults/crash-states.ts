/**
 * What a power cut may leave of a run directory, by the log of what was written to it. What was synced is there; of the rest,
 * a name may have reached the disk or not, and a file's bytes may be all there, not at all, or cut.
 */
import { dirname } from 'node:path';
import type { Random } from '../../src/lib/random.ts';

/** One thing that was done below the run directory; paths are within it, '' is the directory itself. */
export interface Written {
  readonly op: string;
  readonly path: string;
  readonly to?: string;
  readonly flags?: string;
  /** base64 */
  readonly data?: string;
  readonly position?: number;
  /** Of an open file, with its thread. */
  readonly handle?: string;
}

interface File {
  readonly kind: 'file';
  synced: Buffer;
  current: Buffer;
}
interface Folder {
  readonly kind: 'folder';
  synced: Map<string, File | Folder>;
  current: Map<string, File | Folder>;
}
type Entry = File | Folder;

export const VARIANTS = ['nothing but what was synced', 'everything', 'names without bytes', 'torn'] as const;
export type Variant = (typeof VARIANTS)[number];

const folder = (): Folder => ({ kind: 'folder', synced: new Map(), current: new Map() });

/** A disk that is told what was done, and gives what would be left if the power went now. */
export class Disk {
  readonly #root = folder();
  readonly #handles = new Map<string, { readonly entry: Entry; at: number; readonly appends: boolean }>();

  do({ op, path, to, flags = 'r', data, position, handle = '' }: Written): void {
    const bytes = Buffer.from(data ?? '', 'base64');
    const opened = this.#handles.get(handle);
    switch (op) {
      case 'open': {
        const entry = /[wa]/.test(flags) ? this.#create(path, flags) : this.#find(path);
        if (entry) this.#handles.set(handle, { entry, at: 0, appends: flags.startsWith('a') });
        return;
      }
      case 'writeFile':
      case 'appendFile': {
        const entry = this.#create(path, flags);
        entry.current = flags.startsWith('a') ? Buffer.concat([entry.current, bytes]) : bytes;
        return;
      }
      case 'write': {
        if (opened?.entry.kind !== 'file') return;
        const at = position ?? (opened.appends ? opened.entry.current.length : opened.at);
        opened.entry.current = overwritten(opened.entry.current, bytes, at);
        if (position === undefined) opened.at = at + bytes.length;
        return;
      }
      case 'truncate':
        if (opened?.entry.kind === 'file') opened.entry.current = opened.entry.current.subarray(0, position);
        return;
      case 'sync':
      case 'datasync':
      case 'fsync': {
        const entry = opened?.entry;
        if (entry?.kind === 'file') entry.synced = entry.current;
        if (entry?.kind === 'folder') entry.synced = new Map(entry.current);
        return;
      }
      case 'close':
        this.#handles.delete(handle);
        return;
      case 'mkdir':
        this.#makeFolder(path);
        return;
      case 'rename': {
        const entry = this.#find(path);
        if (!entry) return;
        this.#folderOf(path)?.current.delete(nameOf(path));
        this.#folderOf(to!)?.current.set(nameOf(to!), entry);
        return;
      }
      default: // rm, unlink
        this.#folderOf(path)?.current.delete(nameOf(path));
    }
  }

  /** Files by path, and folders as undefined. */
  after(variant: Variant, random: Random): Map<string, Buffer | undefined> {
    const left = new Map<string, Buffer | undefined>();
    const walk = (at: Folder, path: string) => {
      const isCurrent = variant === 'torn' ? random.next() < 0.5 : variant !== 'nothing but what was synced';
      for (const [name, entry] of isCurrent ? at.current : at.synced) {
        const below = path === '' ? name : `${path}/${name}`;
        if (entry.kind === 'folder') {
          left.set(below, undefined);
          walk(entry, below);
        } else {
          left.set(below, bytesAfter(entry, variant, random));
        }
      }
    };
    walk(this.#root, '');
    return left;
  }

  #find(path: string): Entry | undefined {
    if (path === '') return this.#root;
    return this.#folderOf(path)?.current.get(nameOf(path));
  }

  #folderOf(path: string): Folder | undefined {
    const above = dirname(path);
    const found = this.#find(above === '.' ? '' : above);
    return found?.kind === 'folder' ? found : undefined;
  }

  #create(path: string, flags: string): File {
    const known = this.#find(path);
    const file: File =
      known?.kind === 'file' ? known : { kind: 'file', synced: Buffer.alloc(0), current: Buffer.alloc(0) };
    if (flags.startsWith('w')) file.current = Buffer.alloc(0);
    this.#folderOf(path)?.current.set(nameOf(path), file);
    return file;
  }

  #makeFolder(path: string): void {
    if (path === '' || this.#find(path)) return;
    this.#makeFolder(dirname(path) === '.' ? '' : dirname(path));
    this.#folderOf(path)?.current.set(nameOf(path), folder());
  }
}

const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);

function overwritten(old: Buffer, bytes: Buffer, at: number): Buffer {
  const size = Math.max(old.length, at + bytes.length);
  const next = Buffer.alloc(size);
  old.copy(next);
  bytes.copy(next, at);
  return next;
}

function bytesAfter({ synced, current }: File, variant: Variant, random: Random): Buffer {
  if (variant === 'everything' || synced === current) return current;
  if (variant !== 'torn') return synced;
  const cut = random.integer(current.length + 1);
  const isLonger = current.length > synced.length && current.subarray(0, synced.length).equals(synced);
  return current.subarray(0, isLonger ? Math.max(synced.length, cut) : cut);
}

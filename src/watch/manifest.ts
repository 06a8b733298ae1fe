import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Checksum, checksumOf, differsFrom } from '../lib/checksum.ts';
import { isMissing, syncFolder, writeFileAtomically } from '../lib/files.ts';

/**
 * The checksums of a folder's files, in `manifest.json`, written last: a folder with a manifest was complete, and what
 * changed since, by a torn write or a flipped bit, can be named.
 */
interface Manifest {
  readonly format: number;
  readonly files: Readonly<Record<string, Checksum>>;
}

const FORMAT = 1;
const NAME = 'manifest.json';

/** Puts everything below `folder` on the disk, with a manifest of it. */
export async function writeManifest(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files: Record<string, Checksum> = {};
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const checksums = await Promise.all(paths.map((path) => checksumOf(path, { sync: true })));
  for (const [at, path] of paths.entries()) files[within(folder, path)] = checksums[at]!;
  for (const entry of entries) {
    if (entry.isDirectory()) await syncFolder(join(entry.parentPath, entry.name));
  }
  const manifest: Manifest = { format: FORMAT, files };
  await writeFileAtomically(join(folder, NAME), `${JSON.stringify(manifest, null, 2)}\n`);
}

const within = (folder: string, path: string) => path.slice(folder.length + 1).replaceAll('\\', '/');

/** `checksums` reads every byte; `sizes` sees what is missing or cut. */
export type Thoroughness = 'sizes' | 'checksums';

/** What differs from a folder's manifest, each with its file; `none` where it has no manifest. */
export async function checkManifest(
  folder: string,
  thoroughness: Thoroughness,
): Promise<{ readonly faults: readonly string[]; readonly files: number; readonly bytes: number } | 'none'> {
  let manifest: Manifest;
  try {
    manifest = parse(await readFile(join(folder, NAME), 'utf8'));
  } catch (error) {
    if (isMissing(error)) return 'none';
    return { faults: [`${NAME} cannot be read: ${(error as Error).message}`], files: 0, bytes: 0 };
  }
  const files = Object.entries(manifest.files);
  const differs = thoroughness === 'checksums' ? differsFrom : sizeDiffers;
  const found = await Promise.all(files.map(([name, checksum]) => differs(join(folder, name), checksum)));
  return {
    faults: files.flatMap(([name], at) => (found[at] === undefined ? [] : [`${name} ${found[at]}`])),
    files: files.length,
    bytes: files.reduce((sum, [, { bytes }]) => sum + bytes, 0),
  };
}

async function sizeDiffers(path: string, { bytes }: Checksum): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (!found) return 'is missing';
  return found.size === bytes ? undefined : `has ${found.size} bytes where ${bytes} were written`;
}

function parse(text: string): Manifest {
  const manifest = JSON.parse(text) as Partial<Manifest> | null;
  if (manifest?.format === FORMAT && typeof manifest.files === 'object') return manifest as Manifest;
  throw new Error(`it has format ${JSON.stringify(manifest?.format)}; this version reads ${FORMAT}`);
}

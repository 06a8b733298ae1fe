/** The cache of hub files that Python's libraries use too: `blobs/` by hash, and `snapshots/COMMIT/` that link to them. */
import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, rename, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { downloadFile, type PathInfo, pathsInfo } from '@huggingface/hub';

interface Snapshot {
  readonly repo: string;
  readonly commit: string;
  readonly hubUrl: string;
  readonly fetch: typeof fetch;
}

/** Brings files of a commit into the model's folder of the cache, where they are not there yet. Prints nothing. */
export async function fillSnapshot(
  storage: string,
  { commit: revision, ...request }: Snapshot,
  paths: readonly string[],
): Promise<void> {
  const pathInSnapshot = (path: string) => join(storage, 'snapshots', revision, path);
  const missing = paths.filter((path) => !existsSync(pathInSnapshot(path)));
  if (missing.length === 0) return;
  for (const info of await pathsInfo({ ...request, revision, paths: missing })) {
    const blob = join(storage, 'blobs', hashOf(info));
    if (!existsSync(blob)) {
      const file = await downloadFile({ ...request, revision, path: info.path });
      if (!file) throw new Error(`${request.hubUrl} has no file ${info.path} at ${revision}`);
      await mkdir(dirname(blob), { recursive: true });
      await pipeline(chunksOf(file), createWriteStream(`${blob}.incomplete`));
      await rename(`${blob}.incomplete`, blob);
    }
    const link = pathInSnapshot(info.path);
    await mkdir(dirname(link), { recursive: true });
    await symlink(relative(dirname(link), blob), link);
  }
}

async function* chunksOf(file: Blob): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}

function hashOf({ path, lfs, xetHash, oid }: PathInfo): string {
  const hash = lfs?.oid ?? xetHash ?? oid;
  if (hash === undefined) throw new Error(`the hub gives no hash of ${path}`);
  return hash;
}

import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { downloadFileToCacheDir, listFiles } from '@huggingface/hub';
import { DatasetError } from '../../errors.ts';
import { expandHome } from '../open.ts';

/** Where original files come from: a folder or file on this machine, or the name of a dataset on the hub. */
export interface Origin {
  readonly path?: string;
  readonly hub: string;
  readonly hubUrl?: string;
  readonly token?: string;
}

/** The files of an origin whose relative path matches, in order of name. Hub files are downloaded, or found in its cache. */
export async function findFiles(origin: Origin, wanted: RegExp): Promise<string[]> {
  const found = origin.path
    ? await localFiles(expandHome(origin.path), wanted)
    : await hubFiles(origin, wanted);
  return found.sort();
}

async function localFiles(root: string, wanted: RegExp): Promise<string[]> {
  const at = await stat(root).catch(() => undefined);
  if (!at) throw new DatasetError(`${root}: there is no such file or folder`);
  if (at.isFile()) return wanted.test(root) ? [root] : [];
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => wanted.test(relative(root, file).replaceAll('\\', '/')));
}

async function hubFiles({ hub, hubUrl, token }: Origin, wanted: RegExp): Promise<string[]> {
  const access = {
    repo: { type: 'dataset', name: hub },
    ...(hubUrl !== undefined && { hubUrl }),
    ...(token !== undefined && { accessToken: token }),
  } as const;
  try {
    const paths: string[] = [];
    for await (const file of listFiles({ ...access, recursive: true })) {
      if (file.type === 'file' && wanted.test(file.path)) paths.push(file.path);
    }
    return await Promise.all(paths.map((path) => downloadFileToCacheDir({ ...access, path })));
  } catch (cause) {
    throw new DatasetError(
      `the dataset ${hub} cannot be fetched from the hub (${(cause as Error).message}); give a local copy with --local_dataset_path`,
      { cause },
    );
  }
}

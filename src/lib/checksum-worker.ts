/** A thread that hashes the files it is asked for (checksum.ts). */
import { parentPort } from 'node:worker_threads';
import { messageOf } from './error-message.ts';
import { hashFile } from './hash-file.ts';

export interface FileToHash {
  readonly path: string;
  readonly sync: boolean;
}

parentPort!.on('message', async ({ path, sync }: FileToHash) => {
  try {
    parentPort!.postMessage({ value: await hashFile(path, sync) });
  } catch (error) {
    parentPort!.postMessage({ error: messageOf(error) });
  }
});
parentPort!.postMessage({ ready: true });

import { type FileHandle, open } from 'node:fs/promises';

/** A file that only grows. A write that failed half-way (a full disk) is written over by the next, so no reader meets half a record. */
export class GrowingFile {
  readonly #file: FileHandle;
  #length = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async create(path: string): Promise<GrowingFile> {
    return new GrowingFile(await open(path, 'w'));
  }

  get length(): number {
    return this.#length;
  }

  async append(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, done, bytes.length - done, this.#length + done);
      done += bytesWritten;
    }
    this.#length += bytes.length;
  }

  async close(): Promise<void> {
    await this.#file.sync();
    await this.#file.close();
  }
}

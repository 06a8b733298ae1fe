import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TrainerError } from '../errors.ts';
import { writeFileAtomically } from '../lib/files.ts';
import type { Algorithm } from './algorithm.ts';
import type { Batch, Sequence } from './batch.ts';
import type { OptimizerOptions } from './optimizer-options.ts';

/**
 * A batch on disk, with what it takes to run its update again. One line of JSON, then little-endian arrays: of each
 * sequence in turn ids (int32), engine log-probs (float32), versions (int32), turns (int32) and trained (uint8).
 */
export interface StoredBatch {
  readonly reason: string;
  readonly run?: string;
  readonly batch: Batch;
  readonly algorithm: Algorithm;
  readonly optimizer: OptimizerOptions;
  readonly temperature: number;
  readonly seed: number;
  readonly tokensPerTrajectory?: number;
}

const FORMAT = 'rollcall-batch';
const VERSION = 1;

/** Writes the batch of a failed update to `directory/step_N.batch` and returns the path. */
export async function setAside(
  directory: string,
  options: Omit<StoredBatch, 'reason' | 'run'> & { readonly guard?: { readonly run?: string } },
  error: Error,
): Promise<string> {
  const { batch, algorithm, optimizer, temperature, seed, tokensPerTrajectory } = options;
  await mkdir(directory, { recursive: true });
  const file = join(directory, `step_${batch.step}.batch`);
  await writeFileAtomically(
    file,
    encodeBatch({
      reason: error.message,
      ...(options.guard?.run === undefined ? {} : { run: options.guard.run }),
      batch,
      algorithm,
      optimizer,
      temperature,
      seed,
      ...(tokensPerTrajectory === undefined ? {} : { tokensPerTrajectory }),
    }),
  );
  return file;
}

export function encodeBatch(stored: StoredBatch): Uint8Array {
  const { batch, ...rest } = stored;
  const sequences = batch.sequences.map(({ trajectory, segment, ids, images }) => ({
    trajectory,
    segment,
    length: ids.length,
    images,
  }));
  const head = JSON.stringify({ format: FORMAT, version: VERSION, ...rest, batch: { ...batch, sequences } });
  return Buffer.concat([
    Buffer.from(`${head}\n`),
    ...batch.sequences.flatMap(({ ids, behaviour, versions, turns, trained }) =>
      [ids, behaviour, versions, turns, trained].map((array) =>
        Buffer.from(array.buffer, array.byteOffset, array.byteLength),
      ),
    ),
  ]);
}

/** Reads a batch that was set aside because a number in it was not finite. */
export async function readBatchFile(path: string): Promise<StoredBatch> {
  return decodeBatch(await readFile(path), path);
}

export function decodeBatch(data: Uint8Array, name: string): StoredBatch {
  const end = data.indexOf(10);
  const head = parseHead(Buffer.from(data.subarray(0, Math.max(end, 0))).toString('utf8'), name);
  if (head.format !== FORMAT || head.version !== VERSION) {
    throw new TrainerError(
      `${name} is ${head.format ?? 'no batch file'} version ${head.version}; this build reads ${FORMAT} version ${VERSION}`,
    );
  }
  let at = end + 1;
  const take = (bytes: number) => {
    if (at + bytes > data.length)
      throw new TrainerError(`${name} ends in the middle of an array; it is cut off`);
    const copy = data.slice(at, at + bytes);
    at += bytes;
    return copy.buffer.slice(copy.byteOffset, copy.byteOffset + bytes) as ArrayBuffer;
  };
  const sequences = head.batch.sequences.map(({ trajectory, segment, length, images }): Sequence => {
    const ids = new Int32Array(take(4 * length));
    const behaviour = new Float32Array(take(4 * length));
    const versions = new Int32Array(take(4 * length));
    const turns = new Int32Array(take(4 * length));
    const trained = new Uint8Array(take(length));
    const positions = Int32Array.from(Array.from(trained.keys()).filter((position) => trained[position]));
    return { trajectory, segment, ids, behaviour, versions, turns, trained, positions, images };
  });
  const { format: _format, version: _version, ...rest } = head;
  return { ...rest, batch: { ...head.batch, sequences } };
}

type Head = Omit<StoredBatch, 'batch'> & {
  readonly format: unknown;
  readonly version: unknown;
  readonly batch: Omit<Batch, 'sequences'> & {
    readonly sequences: readonly (Pick<Sequence, 'trajectory' | 'segment' | 'images'> & {
      readonly length: number;
    })[];
  };
};

function parseHead(text: string, name: string): Head {
  try {
    return JSON.parse(text) as Head;
  } catch (cause) {
    throw new TrainerError(`${name} is not a batch file: its first line is not JSON`, { cause });
  }
}

import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DatasetError } from '../errors.ts';
import { makeFolder, writeFileAtomically, writeFilesAtomically } from '../lib/files.ts';
import { hideSecrets } from '../lib/secrets.ts';
import type { End, Group, Segment, Task, Trajectory } from '../types.ts';
import { problemsOf } from './problems.ts';
import { RUN_FORMAT, runPaths } from './run-directory.ts';

/**
 * One step's trajectories on disk, three files:
 *
 *   step_N.jsonl        a line per trajectory: messages, turns, ends, spans, rewards
 *   step_N.tokens       their segments' columns, little-endian, one segment after the other
 *   step_N.index.json   per trajectory its scalars, and where its line and its segments are
 *
 * A segment of n tokens takes 29·n bytes, column by column, in the order of COLUMNS. So a viewer reads the
 * index, and then exactly one line and one slice per trajectory it shows.
 */
const COLUMNS = [
  ['ids', 4],
  ['flags', 1],
  ['rolloutLogprobs', 4],
  ['trainerLogprobs', 4],
  ['entropies', 4],
  ['advantages', 4],
  ['versions', 4],
  ['turns', 4],
] as const;
const BYTES_PER_TOKEN = COLUMNS.reduce((sum, [, bytes]) => sum + bytes, 0);
const MAGIC = 'RCTOKENS';
const HEADER_BYTES = 16; // magic, format, bytes per token
const SAMPLED = 1;
/** Trajectories that are packed between two turns of the event loop: others may be going on. */
const AT_ONCE = 16;
const TRAINED = 2;

/** What the trainer knew of a segment's tokens; NaN where it was not asked. */
export interface TokenNotes {
  readonly trainerLogprobs?: Float32Array;
  readonly entropies?: Float32Array;
  readonly advantages?: Float32Array;
}

export interface StoredTokens {
  readonly ids: Int32Array;
  readonly sampled: Uint8Array;
  readonly trained: Uint8Array;
  readonly rolloutLogprobs: Float32Array;
  readonly trainerLogprobs: Float32Array;
  readonly entropies: Float32Array;
  readonly advantages: Float32Array;
  readonly versions: Int32Array;
  readonly turns: Int32Array;
}

/** A trajectory without its tokens, and what it was worth. */
export interface StoredTrajectory extends Omit<Trajectory, 'segments'> {
  readonly rewards: Readonly<Record<string, number>>;
  readonly reward: number | null;
}

export interface IndexEntry {
  readonly id: string;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly reward: number | null;
  readonly end: End;
  readonly turns: number;
  readonly problems: number;
  readonly tokens: number;
  readonly sampledTokens: number;
  readonly advantage: number | null;
  /** Byte offset and length of the trajectory's line. */
  readonly line: readonly [number, number];
  /** Byte offset and token count of each segment. */
  readonly segments: readonly (readonly [number, number])[];
}

export interface StepIndex {
  readonly format: number;
  readonly step: number;
  readonly trajectories: readonly IndexEntry[];
}

const stepFile = (directory: string, step: number, suffix: string) =>
  join(runPaths(directory).trajectories, `step_${step}.${suffix}`);

/** `notes(id, segment)` gives the trainer's columns, where there was training. */
export async function writeTrajectories(
  directory: string,
  step: number,
  groups: readonly Group<Task>[],
  notes: (trajectory: string, segment: number) => TokenNotes = () => ({}),
): Promise<void> {
  const lines: Buffer[] = [];
  const slices: Buffer[] = [header()];
  const entries: IndexEntry[] = [];
  let lineOffset = 0;
  let sliceOffset = HEADER_BYTES;
  for (const { trajectory, rewards, reward } of groups.flatMap((group) => group.attempts)) {
    const { segments, ...described } = trajectory;
    const task = withoutBytes(trajectory.task) as Task;
    const stored: StoredTrajectory = { ...described, task, rewards, reward: reward ?? null };
    const line = Buffer.from(`${hideSecrets(jsonOf({ format: RUN_FORMAT, ...stored }))}\n`);
    const places = segments.map((segment, position) => {
      const slice = packSegment(segment, notes(trajectory.id, position));
      const place = [sliceOffset, segment.ids.length] as const;
      slices.push(slice);
      sliceOffset += slice.length;
      return place;
    });
    entries.push({
      id: trajectory.id,
      taskIndex: trajectory.taskIndex,
      attempt: trajectory.attempt,
      reward: reward ?? null,
      end: trajectory.end,
      turns: trajectory.turns.length,
      problems: trajectory.turns.reduce((sum, turn) => sum + problemsOf(turn).length, 0),
      tokens: segments.reduce((sum, segment) => sum + segment.ids.length, 0),
      sampledTokens: segments.reduce((sum, segment) => sum + count(segment.sampled), 0),
      advantage: lastAdvantage(segments, (position) => notes(trajectory.id, position)),
      line: [lineOffset, line.length],
      segments: places,
    });
    lines.push(line);
    lineOffset += line.length;
    if (lines.length % AT_ONCE === 0) await setImmediate();
  }
  const folder = runPaths(directory).trajectories;
  await makeFolder(folder);
  await writeFilesAtomically(folder, {
    [`step_${step}.tokens`]: Buffer.concat(slices),
    [`step_${step}.jsonl`]: Buffer.concat(lines),
  });
  // Last: a step with an index is complete.
  const index: StepIndex = { format: RUN_FORMAT, step, trajectories: entries };
  await writeFileAtomically(stepFile(directory, step, 'index.json'), `${JSON.stringify(index)}\n`);
}

/** Steps whose trajectories are on disk, in order. */
export async function listSteps(directory: string): Promise<number[]> {
  const files = await readdir(runPaths(directory).trajectories).catch(() => []);
  return files
    .flatMap((file) => /^step_(\d+)\.index\.json$/.exec(file)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
}

export async function readStepIndex(directory: string, step: number): Promise<StepIndex> {
  const path = stepFile(directory, step, 'index.json');
  const index = JSON.parse(await readFile(path, 'utf8')) as StepIndex;
  if (index.format === RUN_FORMAT) return index;
  throw new DatasetError(
    `${path} has format ${index.format}; this version of Rollcall reads format ${RUN_FORMAT}`,
  );
}

export async function readTrajectory(
  directory: string,
  step: number,
  entry: IndexEntry,
): Promise<{ trajectory: StoredTrajectory; segments: StoredTokens[] }> {
  const line = await readSlice(stepFile(directory, step, 'jsonl'), entry.line[0], entry.line[1]);
  const tokensPath = stepFile(directory, step, 'tokens');
  const segments: StoredTokens[] = [];
  for (const [offset, tokens] of entry.segments) {
    segments.push(unpackSegment(await readSlice(tokensPath, offset, tokens * BYTES_PER_TOKEN), tokens));
  }
  return { trajectory: JSON.parse(line.toString('utf8')) as StoredTrajectory, segments };
}

function header(): Buffer {
  const buffer = Buffer.alloc(HEADER_BYTES);
  buffer.write(MAGIC, 'latin1');
  buffer.writeUInt32LE(RUN_FORMAT, 8);
  buffer.writeUInt32LE(BYTES_PER_TOKEN, 12);
  return buffer;
}

function packSegment(segment: Segment, notes: TokenNotes): Buffer {
  const tokens = segment.ids.length;
  const unknown = () => new Float32Array(tokens).fill(Number.NaN);
  const flags = segment.sampled.map(
    (sampled, at) => (sampled ? SAMPLED : 0) | (segment.trained[at] ? TRAINED : 0),
  );
  const columns: Record<(typeof COLUMNS)[number][0], Int32Array | Float32Array | Uint8Array> = {
    ids: segment.ids,
    flags,
    rolloutLogprobs: segment.logprobs,
    trainerLogprobs: notes.trainerLogprobs ?? unknown(),
    entropies: notes.entropies ?? unknown(),
    advantages: notes.advantages ?? unknown(),
    versions: segment.versions,
    turns: segment.turns,
  };
  // Typed arrays are little-endian on every platform Node runs on.
  return Buffer.concat(
    COLUMNS.map(([name]) => {
      const { buffer, byteOffset, byteLength } = columns[name];
      return Buffer.from(buffer, byteOffset, byteLength);
    }),
  );
}

function unpackSegment(bytes: Buffer, tokens: number): StoredTokens {
  let offset = 0;
  const take = (size: number) => {
    const slice = new Uint8Array(bytes.subarray(offset, offset + size * tokens)).buffer; // a copy, so aligned
    offset += size * tokens;
    return slice;
  };
  const ids = new Int32Array(take(4));
  const flags = new Uint8Array(take(1));
  return {
    ids,
    sampled: flags.map((flag) => flag & SAMPLED),
    trained: flags.map((flag) => (flag & TRAINED ? 1 : 0)),
    rolloutLogprobs: new Float32Array(take(4)),
    trainerLogprobs: new Float32Array(take(4)),
    entropies: new Float32Array(take(4)),
    advantages: new Float32Array(take(4)),
    versions: new Int32Array(take(4)),
    turns: new Int32Array(take(4)),
  };
}

async function readSlice(path: string, offset: number, length: number): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await file.read(buffer, 0, length, offset);
    if (bytesRead !== length) {
      throw new DatasetError(
        `${path} ends at byte ${offset + bytesRead}; its index promises ${offset + length}`,
      );
    }
    return buffer;
  } finally {
    await file.close();
  }
}

const plain = new WeakMap<object, unknown>();

/** A task as it is stored: bytes, mostly of images, are replaced by their number. The same object where there are none. */
export function withoutBytes(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: value.length };
  if (typeof value !== 'object' || value === null) return value;
  if (plain.has(value)) return plain.get(value);
  const parts = Object.entries(value);
  const told = parts.map(([name, part]) => [name, withoutBytes(part)] as const);
  const isSame = parts.every(([, part], at) => part === told[at]![1]);
  const made = isSame
    ? value
    : Array.isArray(value)
      ? told.map(([, part]) => part)
      : Object.fromEntries(told);
  plain.set(value, made);
  return made;
}

function count(flags: Uint8Array): number {
  let total = 0;
  for (const flag of flags) total += flag;
  return total;
}

/** The advantage of the last trained token stands for the trajectory in lists. */
function lastAdvantage(segments: readonly Segment[], notes: (segment: number) => TokenNotes): number | null {
  for (let position = segments.length - 1; position >= 0; position--) {
    const advantages = notes(position).advantages;
    const at = segments[position]!.trained.lastIndexOf(1);
    const advantage = at >= 0 ? advantages?.[at] : undefined;
    if (advantage !== undefined && !Number.isNaN(advantage)) return advantage;
  }
  return null;
}

/** What an agent or a task holds that JSON cannot write is written as text: it must not cost a step that was rolled out. */
function jsonOf(value: object): string {
  try {
    return JSON.stringify(value);
  } catch {
    const above: unknown[] = [];
    return JSON.stringify(value, function (_, part: unknown) {
      if (typeof part === 'bigint') return String(part);
      if (typeof part !== 'object' || part === null) return part;
      while (above.length > 0 && above.at(-1) !== this) above.pop();
      if (above.includes(part)) return '[circular]';
      above.push(part);
      return part;
    });
  }
}

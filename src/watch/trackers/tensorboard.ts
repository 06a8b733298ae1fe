import { mkdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import crc32c from 'crc-32/crc32c.js';
import type { TrackedLine, Tracker } from '../tracker.ts';
import { GrowingFile } from './growing-file.ts';
import { doubleField, floatField, integerField, message, messageField, textField } from './protobuf.ts';

/** The folder of TensorBoard's event files. */
export interface TensorBoardOptions {
  /** Where the event file goes; TensorBoard shows each folder as one run. */
  readonly directory: string;
  /** The text of each step's first trajectory too (verl: token2text). */
  readonly text?: boolean;
}

/**
 * Event files that TensorBoard reads: TFRecords of `tensorboard.Event` messages, a scalar per metric. A resumed run
 * begins another file in the same folder, and says in it that everything after its first step is void.
 */
export function tensorboard({ directory, text = false }: TensorBoardOptions): Tracker {
  let file: GrowingFile | undefined;
  return {
    name: 'tensorboard',
    exportHint: `rollcall export RUN --to tensorboard=${directory}`,
    open: async ({ resumedAt }) => {
      await mkdir(directory, { recursive: true });
      const now = Date.now();
      // TensorBoard reads the files of a folder in the order of their names.
      const stamp = `${String(Math.floor(now / 1000)).padStart(10, '0')}.${hostname()}.${process.pid}.${String(now % 1000).padStart(3, '0')}`;
      file ??= await GrowingFile.create(join(directory, `events.out.tfevents.${stamp}`));
      const first = [record(versionEvent(now))];
      if (resumedAt !== undefined) first.push(record(restartEvent(now, resumedAt + 1)));
      await file.append(Buffer.concat(first));
    },
    log: async (lines) => {
      const events = await Promise.all(
        lines.map(async (line) => [
          scalarsEvent(line),
          ...(await imageEvents(line)),
          ...(text && line.text !== undefined ? [textEvent(line, line.text)] : []),
        ]),
      );
      await file!.append(Buffer.concat(events.flat().map(record)));
    },
    close: () => file!.close(),
  };
}

/** TFRecord: length, its checksum, the data, its checksum. */
function record(data: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(data.length + 16);
  bytes.writeBigUInt64LE(BigInt(data.length), 0);
  bytes.writeUInt32LE(maskedChecksum(bytes.subarray(0, 8)), 8);
  bytes.set(data, 12);
  bytes.writeUInt32LE(maskedChecksum(data), 12 + data.length);
  return bytes;
}

/** CRC32C, rotated and shifted as TFRecord requires, so that a checksum of checksums is not trivial. */
function maskedChecksum(data: Uint8Array): number {
  const checksum = crc32c.buf(data) >>> 0;
  return (((checksum >>> 15) | (checksum << 17)) + 0xa282ead8) >>> 0;
}

// The few fields of tensorboard/compat/proto/event.proto that are needed, by their numbers.
const WALL_TIME = 1;
const STEP = 2;
const FILE_VERSION = 3;
const SUMMARY = 5;
const SESSION_LOG = 7;
const SESSION_STATUS = 1;
const SESSION_START = 1;

const versionEvent = (time: number) =>
  message(doubleField(WALL_TIME, time / 1000), textField(FILE_VERSION, 'brain.Event:2'));

/** Readers drop what earlier files say of this step and later ones. */
const restartEvent = (time: number, step: number) =>
  message(
    doubleField(WALL_TIME, time / 1000),
    integerField(STEP, step),
    messageField(SESSION_LOG, integerField(SESSION_STATUS, SESSION_START)),
  );

/** A field for bytes has the wire form of one for a message. */
const IMAGE = { summary: 4, height: 1, width: 2, colours: 3, bytes: 4 };
const RGB = 3;

/** TensorBoard's text plugin: a tensor of one string. */
const TEXT = { metadata: 9, tensor: 8, plugin: 1, type: 1, shape: 2, dimension: 2, strings: 8 };
const STRING = 7;

function textEvent({ time, step }: TrackedLine, text: string): Uint8Array {
  const tensor = [
    integerField(TEXT.type, STRING),
    messageField(TEXT.shape, messageField(TEXT.dimension, integerField(1, 1))),
    // It is read as Markdown: as code, the marks of the template stay as they are.
    textField(TEXT.strings, `    ${text.replaceAll('\n', '\n    ')}`),
  ];
  const value = messageField(
    1,
    textField(1, 'trajectory'),
    messageField(TEXT.metadata, messageField(TEXT.plugin, textField(1, 'text'))),
    messageField(TEXT.tensor, ...tensor),
  );
  return message(doubleField(WALL_TIME, time / 1000), integerField(STEP, step), messageField(SUMMARY, value));
}

async function imageEvents({ time, step, images = [] }: TrackedLine): Promise<Uint8Array[]> {
  const events = images.map(async ({ name, width, height, png }) => {
    const bytes = await png();
    if (bytes === undefined) return [];
    const picture = [
      integerField(IMAGE.height, height),
      integerField(IMAGE.width, width),
      integerField(IMAGE.colours, RGB),
      messageField(IMAGE.bytes, bytes),
    ];
    const value = messageField(1, textField(1, name), messageField(IMAGE.summary, ...picture));
    return [
      message(doubleField(WALL_TIME, time / 1000), integerField(STEP, step), messageField(SUMMARY, value)),
    ];
  });
  return (await Promise.all(events)).flat();
}

function scalarsEvent({ time, step, metrics }: TrackedLine): Uint8Array {
  const values = Object.entries(metrics).map(([tag, value]) =>
    messageField(1, textField(1, tag), floatField(2, value)),
  );
  return message(
    doubleField(WALL_TIME, time / 1000),
    integerField(STEP, step),
    messageField(SUMMARY, ...values),
  );
}

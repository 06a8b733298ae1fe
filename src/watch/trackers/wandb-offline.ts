import { mkdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { TrackedRun, Tracker } from '../tracker.ts';
import { GrowingFile } from './growing-file.ts';
import { integerField, message, messageField, textField } from './protobuf.ts';
import { WANDB_FILE_HEADER, wandbRecord } from './wandb-file.ts';
import { newRunId, type WandbImage, type WandbRun, wandbImages, wandbRow, wandbValue } from './wandb-run.ts';

/** The oldest reader of what is written here, as W&B's own client says it. */
const MIN_CONSUMER = '0.70.0';

/** Without a network: a folder that the `wandb` package uploads later, by `wandb sync FOLDER`. */
export function wandbOffline(
  { project, experiment, entity, group, notes, tags, id = newRunId(), text = false }: WandbRun,
  directory: string,
): Tracker {
  let file: GrowingFile | undefined;
  let records = 0;
  let folder = '';
  const written = new Set<string>();
  const append = async (content: readonly Uint8Array[]) => {
    const bytes: Uint8Array[] = [];
    let length = file!.length;
    for (const [at, field] of content.entries()) {
      const record = wandbRecord(message(integerField(RECORD.num, records + at + 1), field), length);
      bytes.push(record);
      length += record.length;
    }
    await file!.append(Buffer.concat(bytes));
    records += content.length;
  };
  return {
    name: 'wandb',
    exportHint: 'rollcall export RUN --to wandb',
    open: async (run) => {
      folder = join(directory, 'wandb', `offline-run-${stamp(new Date(run.clockBegan))}-${id}`);
      await mkdir(join(folder, 'files'), { recursive: true });
      if (file === undefined) {
        file = await GrowingFile.create(join(folder, `run-${id}.wandb`));
        await file.append(WANDB_FILE_HEADER);
      }
      const named = { project, experiment, entity, group, notes, tags, id };
      await append([headerRecord(), runRecord(run, named)]);
    },
    log: async (lines) => {
      for (const line of lines) {
        const images = await wandbImages(line);
        const news = images.filter(({ path }) => !written.has(path));
        for (const { path, bytes } of news) {
          await mkdir(dirname(join(folder, 'files', path)), { recursive: true });
          await writeFile(join(folder, 'files', path), bytes);
          written.add(path);
        }
        const row = wandbRow(line, images, text);
        await append([...news.map(fileRecord), summaryRecord(row), historyRecord(row, line.step)]);
      }
    },
    close: async (end) => {
      await append([messageField(RECORD.exit, integerField(1, end === 'finished' ? 0 : 1))]);
      await file!.close();
    },
  };
}

// Fields of wandb_internal.proto, by their numbers.
const RECORD = { num: 1, history: 2, summary: 3, files: 6, run: 17, exit: 18, header: 21 };
const RUN = {
  id: 1,
  entity: 2,
  project: 3,
  config: 4,
  group: 6,
  name: 8,
  notes: 9,
  tags: 10,
  host: 13,
  start: 17,
};
const VALUE_JSON = 16;

const headerRecord = () =>
  messageField(RECORD.header, messageField(1, textField(1, 'rollcall'), textField(2, MIN_CONSUMER)));

function runRecord(
  { options, clockBegan }: TrackedRun,
  { id, project, experiment, entity, group, notes, tags = [] }: WandbRun & { readonly id: string },
): Uint8Array {
  const optional = (field: number, text: string | undefined) => (text ? textField(field, text) : undefined);
  const config = Object.entries(options).map(([key, value]) =>
    messageField(1, textField(1, key), textField(VALUE_JSON, JSON.stringify(value ?? null))),
  );
  return messageField(
    RECORD.run,
    textField(RUN.id, id),
    optional(RUN.entity, entity),
    textField(RUN.project, project),
    messageField(RUN.config, ...config),
    optional(RUN.group, group),
    textField(RUN.name, experiment),
    optional(RUN.notes, notes),
    ...tags.map((tag) => textField(RUN.tags, tag)),
    textField(RUN.host, hostname()),
    messageField(RUN.start, integerField(1, Math.floor(clockBegan / 1000))),
  );
}

const historyRecord = (row: Row, step: number) =>
  messageField(RECORD.history, ...itemsOf(row), messageField(2, integerField(1, step)));

/** A file below `files/` that is uploaded at once, as media. */
const fileRecord = ({ path }: WandbImage) =>
  messageField(RECORD.files, messageField(1, textField(1, path), integerField(3, MEDIA)));
const MEDIA = 2;

/** The newest value of each metric, which W&B shows in its tables. */
const summaryRecord = (row: Row) => messageField(RECORD.summary, ...itemsOf(row));

type Row = ReturnType<typeof wandbRow>;

const itemsOf = (row: Row) =>
  Object.entries(row).map(([key, value]) =>
    messageField(1, textField(2, key), textField(VALUE_JSON, wandbValue(value))),
  );

/** 20261115_052439, in UTC. */
function stamp(time: Date): string {
  const [date, clock] = time.toISOString().split('T') as [string, string];
  return `${date.replaceAll('-', '')}_${clock.slice(0, 8).replaceAll(':', '')}`;
}

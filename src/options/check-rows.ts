import type { Dataset } from '../dataset/dataset.ts';
import type { TaskRow } from '../dataset/task-row.ts';
import { readImage } from '../services/image-blobs.ts';

/** Rows that are read before a run starts; of a larger dataset this many, evenly spread. */
const MOST_ROWS = 50_000;

/**
 * Reads rows before the first step, because one that nothing can score or answer is better known now than at its step.
 * An error names the file and the row. Returns how many rows were looked at.
 */
export async function checkRows(
  rows: Dataset<TaskRow>,
  check: (row: TaskRow) => void,
  most = MOST_ROWS,
): Promise<number> {
  const checked = rows.map(async (row) => {
    check(row);
    await checkImages(row);
    return row;
  });
  const count = Math.min(rows.length, most);
  for (let number = 0; number < count; number++) {
    await checked.at(Math.floor((number * rows.length) / count));
  }
  return count;
}

async function checkImages({ prompt }: TaskRow): Promise<void> {
  for (const { content } of prompt) {
    if (typeof content === 'string') continue;
    for (const part of content) if (part.type === 'image') await readImage(part.source);
  }
}

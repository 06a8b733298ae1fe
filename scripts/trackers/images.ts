/** A run whose task, tool and user show images, read back by MLflow's client, TensorBoard's reader and `wandb sync`. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { train } from 'rollcall';
import { mlflow, tensorboard, wandb } from 'rollcall/trackers';
import { HELD_UP, options, SHOWN, ZOOMED } from '../../test/runs/pictures.ts';
import { tinyModel } from '../../test/tiny-model.ts';
import { wandbStandIn } from '../../test/trackers-stand-ins.ts';

const run = promisify(execFile);
const KEY = 'a'.repeat(40);
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

interface Read {
  readonly tag: string;
  readonly mlflow: Readonly<Record<string, string>>;
  readonly tensorboard: Readonly<Record<string, readonly string[]>>;
  readonly text: readonly string[];
}

export async function proveImages(
  bin: string,
  folder: string,
  check: (name: string, holds: boolean) => void,
): Promise<void> {
  const names = { project: 'proof', experiment: 'pictures' };
  const [board, uri] = [join(folder, 'pictures-board'), `file://${folder}/pictures-mlruns`];
  const wandbFolder = join(folder, 'pictures-wandb');
  const trackers = [
    tensorboard({ directory: board, text: true }),
    mlflow({ ...names, uri }),
    wandb({ ...names, text: true, environment: { WANDB_MODE: 'offline', WANDB_DIR: wandbFolder } }),
  ];
  for await (const _ of train({ ...options(await tinyModel(), join(folder, 'pictures')), trackers })) {
    // to its end
  }
  const hashes = [SHOWN, ZOOMED, HELD_UP].map(hash);
  const env = { ...process.env, MLFLOW_ALLOW_FILE_STORE: 'true' };
  const { stdout } = await run(join(bin, 'python'), ['scripts/trackers/read-images.py', uri, board], { env });
  const read = JSON.parse(stdout.trim().split('\n').at(-1)!) as Read;
  check(
    'MLflow has every image of the first trajectory, whole and small, and knows that there are some',
    read.tag === 'True' &&
      hashes.every((one) => Object.values(read.mlflow).filter((other) => other === one).length === 2),
  );
  check(
    'TensorBoard reads the same images, and the text of the trajectory',
    hashes.every((one, at) => read.tensorboard[`images/${at + 1}`]?.join() === one) &&
      read.text.length === 1 &&
      read.text[0]!.includes('Which colour has its corner?'),
  );
  const server = await wandbStandIn(KEY);
  try {
    const [offline] = readdirSync(join(wandbFolder, 'wandb'));
    await run(join(bin, 'wandb'), ['sync', join(wandbFolder, 'wandb', offline!)], {
      env: { ...process.env, WANDB_API_KEY: KEY, WANDB_BASE_URL: server.url },
      cwd: folder,
      timeout: 120_000,
    });
  } finally {
    await server.close();
  }
  const [synced] = [...server.state.runs.values()];
  const row = JSON.parse(synced?.history.at(-1) ?? '{}') as Record<string, { path?: string } | string>;
  check(
    '`wandb sync` uploads the files of the images, and rows that name them, with the text',
    hashes.every((one, at) => {
      const { path = '' } = (row[`images/${at + 1}`] ?? {}) as { path?: string };
      const file = server.state.files.get(path);
      return file !== undefined && hash(file) === one;
    }) && String(row['trajectory']).includes('Which colour has its corner?'),
  );
}

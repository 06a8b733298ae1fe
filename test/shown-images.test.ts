/** What people see of a run's images outside of its page: in trackers and in the terminal. */
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { train } from 'rollcall';
import { mlflow, tensorboard, wandb } from 'rollcall/trackers';
import { beforeAll, expect, test } from 'vitest';
import { command } from './command.ts';
import { HELD_UP, options, SHOWN, ZOOMED } from './runs/pictures.ts';
import { tinyModel } from './tiny-model.ts';
import { mlflowStandIn, readEvents, wandbStandIn } from './trackers-stand-ins.ts';

const PICTURES = [SHOWN, ZOOMED, HELD_UP];
const HASHES = PICTURES.map((bytes) => createHash('sha256').update(bytes).digest('hex'));
const NAMES = { project: 'images', experiment: 'pictures' };
const KEY = 'a'.repeat(40);

let folder: string;
let run: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-shown-'));
  run = join(folder, 'run');
});

const bytesOf = (buffer: Buffer | undefined) => buffer && new Uint8Array(buffer);

test('TensorBoard, MLflow and W&B get the images of the first trajectory: its task, its tool and its user', async () => {
  const [flow, bias] = [await mlflowStandIn(), await wandbStandIn(KEY)];
  const [board, local] = [join(folder, 'board'), join(folder, 'mlruns')];
  try {
    const trackers = [
      tensorboard({ directory: board, text: true }),
      mlflow({ ...NAMES, uri: flow.url }),
      mlflow({ ...NAMES, uri: `file://${local}` }),
      wandb({ ...NAMES, text: true, environment: { WANDB_API_KEY: KEY, WANDB_BASE_URL: bias.url } }),
      wandb({ ...NAMES, environment: { WANDB_MODE: 'offline', WANDB_DIR: folder } }),
    ];
    for await (const { notices } of train({ ...options(await tinyModel(), run), trackers }))
      expect(notices.filter((notice) => notice.includes('tracker'))).toEqual([]);
  } finally {
    await Promise.all([flow.close(), bias.close()]);
  }
  const [file] = await readdir(board);
  const events = readEvents(await readFile(join(board, file!)));
  const drawn = events.flatMap(({ step, images }) =>
    Object.entries(images).map(([name, bytes]) => [step, name, bytesOf(bytes)]),
  );
  expect(drawn).toEqual(PICTURES.map((bytes, at) => [1, `images/${at + 1}`, bytes]));

  const texts = events.flatMap(({ step, texts: own }) =>
    Object.entries(own).map((entry) => [step, ...entry]),
  );
  expect(texts).toEqual([[1, 'trajectory', expect.stringContaining('Which colour has its corner?')]]);

  const [kept] = [...flow.state.runs.values()];
  expect(kept!.tags.get('mlflow.loggedImages')).toBe('True');
  const artifacts = [...kept!.artifacts].filter(([name]) => name.startsWith('images/'));
  for (const [at, bytes] of PICTURES.entries()) {
    const pattern = new RegExp(
      `^images/images~${at + 1}\\+step\\+1\\+timestamp\\+\\d+\\+${HASHES[at]!.slice(0, 32)}(\\+compressed)?\\.png$`,
    );
    const own = artifacts.filter(([name]) => pattern.test(name));
    expect(own.map(([, given]) => bytesOf(given))).toEqual([bytes, bytes]);
  }
  const localFiles = (await readdir(local, { recursive: true })).filter((name) => name.includes('/images/'));
  expect(localFiles).toHaveLength(2 * PICTURES.length);

  const [{ history }] = [...bias.state.runs.values()] as unknown as [{ history: string[] }];
  const row = JSON.parse(history.at(-1)!) as Record<string, { path: string }>;
  for (const [at, bytes] of PICTURES.entries()) {
    const value = row[`images/${at + 1}`]!;
    expect(value).toMatchObject({
      _type: 'image-file',
      format: 'png',
      sha256: HASHES[at],
      size: bytes.length,
    });
    expect(bytesOf(bias.state.files.get(value.path))).toEqual(bytes);
    const [offline] = await readdir(join(folder, 'wandb'));
    const saved = await readFile(join(folder, 'wandb', offline!, 'files', value.path));
    expect(bytesOf(saved)).toEqual(bytes);
  }
  expect(row['trajectory']).toMatch(/Which colour has its corner\?[\s\S]*And this\?[\s\S]*Blue\./);
  expect(row['images/2']).toMatchObject({
    caption: 'train/step-1/task-0/attempt-0, message 2, tool zoom',
    width: 30,
    height: 30,
  });
}, 60_000);

test('rollcall show --images tells where each image stands and where its file is, or draws it', async () => {
  const { stdout } = await command('show', run, '--images');
  const lines = stripVTControlCharacters(stdout)
    .split('\n')
    .filter((line) => line.startsWith('image '));
  expect(lines.map((line) => line.trimEnd())).toEqual([
    `image 1: message 0, user, 60×30, 2 tokens  ${join(run, 'blobs', HASHES[0]!)}`,
    `image 2: message 2, tool zoom, 30×30, 1 tokens  ${join(run, 'blobs', HASHES[1]!)}`,
    `image 3: message 4, user, 20×40, 1 tokens  ${join(run, 'blobs', HASHES[2]!)}`,
  ]);
  const drawn = await command('show', run, '--images', 'kitty');
  for (const bytes of PICTURES)
    expect(drawn.stdout).toContain(Buffer.from(bytes).toString('base64').slice(0, 80));
  expect((await command('show', run)).stdout).toContain(
    '3 images were shown to the model; --images draws them',
  );
}, 60_000);

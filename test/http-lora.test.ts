import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { embedded, servers, type TrainOptions, train } from 'rollcall';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type StartedServer, startProcess } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

const rollcall = fileURLToPath(new URL('../bin/rollcall.js', import.meta.url));
const running: StartedServer[] = [];
const lora = { rank: 4, alpha: 8 };

let options: TrainOptions<{ letter: string }>;

beforeAll(async () => {
  const model = await tinyModel();
  process.env['MODEL'] = model;
  process.env['RUN'] = 'given below';
  ({ options } = await import('./runs/letters.ts'));
  const serve = [rollcall, 'serve', '--model', model, '--port', '0', '--threads', '1'];
  running.push(...(await Promise.all([startProcess(serve), startProcess(serve)])));
}, 60_000);

afterAll(async () => {
  await Promise.all(running.map((server) => server.stop('SIGKILL')));
});

async function run(engine: Pick<TrainOptions, 'servers' | 'trainer'>) {
  const runDir = await mkdtemp(join(tmpdir(), 'rollcall-http-lora-'));
  const steps: { texts: string[]; versions: number[]; servers: unknown[]; reward: number }[] = [];
  for await (const { step, groups } of train({ ...options, ...engine, runDir, steps: 6 })) {
    if (step === 0) continue;
    const attempts = groups.flatMap((group) => group.attempts);
    steps.push({
      texts: attempts.map(({ trajectory }) => trajectory.text),
      versions: attempts.flatMap(({ trajectory }) =>
        trajectory.segments.flatMap(({ versions }) =>
          [...new Set(versions)].filter((version) => version >= 0),
        ),
      ),
      servers: attempts.flatMap(({ trajectory }) =>
        trajectory.spans.flatMap(({ attributes }) => attributes?.['server'] ?? []),
      ),
      reward: attempts.reduce((sum, { reward }) => sum + reward!, 0) / attempts.length,
    });
  }
  return steps;
}

test('adapters sent by name, over HTTP or in this process, are those that were trained: the run is the one with merged weights', async () => {
  const near = await run(embedded({ threads: 1, lora, send: 'weights' }));
  const log: string[] = [];
  const far = await run({
    servers: servers({
      urls: running.map(({ url }) => url),
      engine: 'rollcall',
      send: 'adapter',
      log: (line) => log.push(line),
    }),
    trainer: embedded({ threads: 1, lora }).trainer,
  });
  expect(log).toEqual([]);
  expect(new Set(far.flatMap(({ servers }) => servers))).toEqual(new Set(running.map(({ url }) => url)));
  for (const [step, { versions }] of far.entries()) expect(new Set(versions)).toEqual(new Set([step]));
  const inside = await run(embedded({ threads: 1, lora }));
  for (const other of [far, inside])
    expect(other.map(({ texts }) => texts)).toEqual(near.map(({ texts }) => texts));
  expect(far[0]!.texts).not.toEqual(far[3]!.texts);
}, 180_000);

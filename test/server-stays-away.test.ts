import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errors, reward, servers, type TrainOptions, train } from 'rollcall';
import type { TrainerFactory } from 'rollcall/ports';
import { byteModel, tabularTrainer } from 'rollcall/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listSteps } from '../src/watch/trajectory-store.ts';
import { startStandIn } from './stand-ins/start.ts';
import { tinyModel } from './tiny-model.ts';

type Letter = { letter: string };
type StandIn = Awaited<ReturnType<typeof startStandIn>>;

const START_SECONDS = 4;
const running: StandIn[] = [];
let options: TrainOptions<Letter>;

beforeAll(async () => {
  process.env['MODEL'] = await tinyModel();
  process.env['RUN'] = 'given below';
  ({ options } = (await import('./runs/letters.ts')) as { options: TrainOptions<Letter> });
});

afterAll(async () => {
  await Promise.all(running.map((server) => server.stop('SIGKILL')));
});

async function start(port = 0): Promise<StandIn> {
  const server = await startStandIn('sglang', { table: true, tokenMs: 1 }, port);
  running.push(server);
  return server;
}

/** A table of logits, which reaches the server as a folder. */
const tables: TrainerFactory = {
  name: 'tables',
  open: async () => {
    const trainer = tabularTrainer({ vocabulary: byteModel().tokenizer.vocabularySize });
    const folder = await mkdtemp(join(tmpdir(), 'rollcall-tables-'));
    return Object.assign(trainer, {
      publishes: 'disk' as const,
      publish: async (version: number) => {
        const path = join(folder, String(version));
        await trainer.save(path);
        return { kind: 'disk' as const, version, path };
      },
    });
  },
};

interface Told {
  readonly log: string[];
  /** Rewards of each step that was taken. */
  readonly rewards: number[][];
  /** How every attempt ended that was given to the reward. */
  readonly scored: string[];
  error: unknown;
}

/** Six steps, or as many as there are until it fails. */
async function run(url: string, runDir: string, more: Partial<TrainOptions<Letter>>): Promise<Told> {
  const told: Told = { log: [], rewards: [], scored: [], error: undefined };
  const given: TrainOptions<Letter> = {
    ...options,
    servers: servers({
      urls: [url],
      engine: 'sglang',
      startSeconds: START_SECONDS,
      log: (line) => told.log.push(line),
    }),
    trainer: tables,
    rewards: [
      reward<Letter>('before', ({ task, trajectory: { text, end } }) => {
        told.scored.push(end.kind);
        return text.length > 0 && text[0]! < task.letter ? 1 : 0;
      }),
    ],
    optimizer: { learningRate: 0.5 },
    checkpoints: { every: 100 },
    runDir,
    ...more,
  };
  try {
    for await (const { step, groups } of train(given))
      if (step > 0)
        told.rewards.push(groups.flatMap(({ attempts }) => attempts.map((attempt) => attempt.reward!)));
  } catch (error) {
    told.error = error;
  }
  return told;
}

const directory = () => mkdtemp(join(tmpdir(), 'rollcall-away-'));
const json = async (...path: string[]) => JSON.parse(await readFile(join(...path), 'utf8')) as object;

test('a run whose only server stays away waits as long as a start may take, then leaves a checkpoint, and resumes as if nothing had been', async () => {
  const server = await start();
  const whole = await run(server.url, await directory(), {});
  expect(whole).toMatchObject({ log: [], error: undefined });
  expect(whole.rewards).toHaveLength(6);

  const cases = [
    { phase: 'rollout', every: 100, says: /of 16 attempts failed \(infrastructure\).*no server answered/s },
    // An update that no server took belongs to no step: what is left is the checkpoint that was due before it.
    { phase: 'training', every: 1, says: /no server took version 3 of the weights: .*ECONNREFUSED/ },
  ];
  const { port } = new URL(server.url);
  for (const { phase, every, says } of cases) {
    const runDir = await directory();
    let gone = 0;
    const broken = await run(server.url, runDir, {
      checkpoints: { every },
      onProgress: (now) => {
        if (now.step !== 3 || now.phase !== phase || (phase === 'rollout' && now.done !== 2) || gone > 0)
          return;
        gone = performance.now();
        running.at(-1)!.process.kill('SIGKILL');
      },
    });
    const seconds = (performance.now() - gone) / 1000;
    expect(seconds).toBeGreaterThan(START_SECONDS);
    expect(seconds).toBeLessThan(START_SECONDS + 20);
    expect(broken.error).toBeInstanceOf(errors.EngineError);
    expect(String(broken.error)).toMatch(says);
    expect(broken.log).toEqual([
      expect.stringContaining(`${server.url} is out`),
      `no server answers; one that is back within ${START_SECONDS} s gets the newest weights`,
    ]);
    expect(broken.rewards).toEqual(whole.rewards.slice(0, 2));
    expect(broken.scored).not.toContain('failed');
    expect(await json(runDir, 'end.json')).toMatchObject({ state: 'failed', step: 2, error: 'EngineError' });
    expect(await readFile(join(runDir, 'checkpoints', 'latest'), 'utf8')).toBe('global_step_2\n');
    expect(await listSteps(runDir)).toEqual([1, 2]);

    await start(Number(port));
    const resumed = await run(server.url, runDir, { resume: true });
    expect(resumed.error).toBeUndefined();
    expect([...broken.rewards, ...resumed.rewards]).toEqual(whole.rewards);
    expect(await json(runDir, 'end.json')).toMatchObject({ state: 'finished', step: 6 });
  }
}, 120_000);

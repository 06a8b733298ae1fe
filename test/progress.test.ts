import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agent, arrayDataset, reward, train } from 'rollcall';
import type { Progress } from 'rollcall/options';
import { expect, test } from 'vitest';
import { embedded } from '../src/engine/embedded.ts';
import type { Row, ScoreOptions } from '../src/training/trainer.ts';
import { tinyModel } from './tiny-model.ts';

/** SIGTERM gives up a rollout at once, but lets an update end: given up, it takes the step before with it. */
test('a run says that it trains before the trainer has answered', async () => {
  const model = await tinyModel();
  const engine = embedded({ threads: 1 });
  let told: Progress['phase'] | undefined;
  const asked: (Progress['phase'] | undefined)[] = [];
  const trainer: typeof engine.trainer = {
    ...engine.trainer,
    open: async (...words) => {
      const opened = await engine.trainer.open(...words);
      const forward = opened.forward.bind(opened);
      opened.forward = (rows: readonly Row[], options: ScoreOptions) => {
        asked.push(told);
        return forward(rows, options);
      };
      return opened;
    },
  };
  const run = train({
    model,
    runDir: join(await mkdtemp(join(tmpdir(), 'rollcall-progress-')), 'run'),
    servers: engine.servers,
    trainer,
    tasks: arrayDataset([{ letter: 'm' }]),
    agent: agent<{ letter: string }>(async ({ task, model: policy }) => {
      const chat = policy.chat();
      chat.user(task.letter);
      await chat.sample();
    }),
    rewards: [reward('first', ({ trajectory }) => trajectory.text.charCodeAt(0) || 0)],
    steps: 2,
    tasksPerStep: 1,
    attemptsPerTask: 4,
    limits: { tokensPerReply: 4 },
    optimizer: { tokensPerMicroBatch: 4096 },
    onProgress: ({ phase }) => {
      told = phase;
    },
  });
  for await (const _ of run);
  expect(new Set(asked)).toEqual(new Set(['training']));
}, 60_000);

import { agent, arrayDataset, embedded, reward, servers, type TrainOptions } from 'rollcall';

type Letter = { letter: string };

let attempts = 0;

/**
 * A run of a few seconds on a tiny model: say characters that sort before the letter. `MODEL` and `RUN` are folders. After
 * `HANG_AFTER` attempts an attempt never ends. `SERVER` is the address of a server that samples.
 */
export const options: TrainOptions<Letter> = {
  model: process.env['MODEL']!,
  runDir: process.env['RUN']!,
  tasks: arrayDataset(['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => ({ letter }))),
  agent: agent<Letter>(async ({ task, model }) => {
    if (++attempts > Number(process.env['HANG_AFTER'] ?? Number.POSITIVE_INFINITY))
      await new Promise(() => {});
    const chat = model.chat();
    chat.user(task.letter);
    await chat.sample();
  }),
  rewards: [
    reward<Letter>('before', ({ task, trajectory: { text } }) => {
      return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
    }),
  ],
  ...embedded({ threads: 1 }),
  ...(process.env['SERVER'] ? { servers: servers({ urls: [process.env['SERVER']], engine: 'sglang' }) } : {}),
  steps: Number(process.env['STEPS'] ?? 6),
  tasksPerStep: 4,
  attemptsPerTask: 4,
  limits: { tokensPerReply: 12 },
  optimizer: { learningRate: 1e-2 },
  checkpoints: { every: 2 },
};

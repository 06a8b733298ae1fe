import { fileURLToPath } from 'node:url';
import { openDataset, reward, type TrainOptions } from 'rollcall';
import { type Problem, solver } from './tool-loop.ts';

// A task is a plain row.
const problems = await openDataset(fileURLToPath(new URL('tasks.jsonl', import.meta.url)));

/** A reward is a function of the finished trajectory: is the last number of the last reply the answer? */
const correct = reward<Problem>('correct', ({ task, trajectory }) =>
  Number(trajectory.text.match(/-?\d+(\.\d+)?(?=\D*$)/)?.[0]) === task.answer ? 1 : 0,
);

/** Run it: `npx rollcall train train.ts`. */
export const options: TrainOptions<Problem> = {
  model: 'runs/quickstart-1/warm-start',
  tasks: problems.map((row) => row as Problem),
  agent: solver,
  rewards: [correct],
  steps: 10,
  tasksPerStep: 16,
  attemptsPerTask: 8,
  limits: { turns: 6, tokensPerReply: 48, tokensPerTrajectory: 192 },
  optimizer: { learningRate: 3e-4 },
  runDir: 'runs/agent',
};

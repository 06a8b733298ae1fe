import { openDataset, reward, type TrainOptions, tool, toolLoop } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { z } from 'zod';

// A task is a plain row.
type Problem = { question: string; answer: number };
const problems = await openDataset(new URL('problems.jsonl', import.meta.url).pathname);

// A tool is a schema and a function. Malformed calls, exceptions and timeouts are reported to the model
// and counted in the metrics.
const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: z.object({ expression: z.string() }),
  run: ({ expression }) => {
    const [, a, operation, b] = /^(-?[\d.]+)([-+*/])(-?[\d.]+)$/.exec(expression.replaceAll(' ', '')) ?? [];
    const results = { '+': Number(a) + Number(b), '-': Number(a) - Number(b), '*': Number(a) * Number(b) };
    const result = { ...results, '/': Number(a) / Number(b) }[operation ?? ''];
    if (result === undefined || !Number.isFinite(result)) throw new Error('not one operation on two numbers');
    return String(Math.round(100 * result) / 100);
  },
});

// An agent is what happens in one attempt. This one is the usual loop: reply, run the calls, repeat.
const solver = toolLoop<Problem>({ prompt: ({ question }) => question, tools: [calculator] });

// A reward is a function of the finished trajectory.
const correct = reward<Problem>('correct', ({ task, trajectory }) =>
  Number(trajectory.text.match(/-?\d+(\.\d+)?(?=\D*$)/)?.[0]) === task.answer ? 1 : 0,
);

/** Run it: `npx rollcall train examples/calculator/train.ts`, after `npm start` has made the model. */
export const options: TrainOptions<Problem> = {
  model: 'runs/quickstart-1/warm-start',
  tasks: problems.map((row) => row as Problem),
  agent: solver,
  rewards: [correct],
  algorithm: grpo({ clip: [0.2, 0.28] }),
  steps: 20,
  tasksPerStep: 32,
  attemptsPerTask: 8,
  limits: { turns: 6, tokensPerReply: 48, tokensPerTrajectory: 192 },
  optimizer: { learningRate: 3e-4, miniBatches: 2 },
  runDir: 'runs/calculator',
};

/** One step of training on one task: two attempts, in which the model calls a tool and then answers. Prints the trace. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { arrayDataset, reward, tool, toolLoop, train } from 'rollcall';
import { byteModel, scriptedEngine } from 'rollcall/testing';
import { z } from 'zod';
import { tinyModel } from '../tiny-model.ts';

interface Entered {
  /** File and name of the function. */
  readonly id: string;
  /** File that called it. */
  readonly caller: string | undefined;
}

const trace: Entered[] = [];
/** The function itself is the first frame of `src/`; what called it is the second. */
Object.assign(globalThis, {
  enter: (id: string) => {
    const frames = [...(new Error().stack ?? '').matchAll(/\/(src\/[\w/.-]+\.ts):\d+/g)];
    trace.push({ id, caller: frames[1]?.[1] });
  },
});
Error.stackTraceLimit = 30;

const { tokenizer } = byteModel();
const server = scriptedEngine({
  tokenizer,
  reply: ({ turn }) =>
    turn === 0 ? '<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>' : 'It is 5.',
});
const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => a + b,
});
const runDir = join(await mkdtemp(join(tmpdir(), 'rollcall-walk-')), 'run');
const run = train({
  model: await tinyModel(),
  tasks: arrayDataset([{ question: 'What is 2 + 3?' }]),
  agent: toolLoop({ prompt: 'What is 2 + 3?', tools: [add] }),
  rewards: [reward('attempt', ({ trajectory }) => trajectory.attempt)],
  servers: { name: 'scripted', open: async () => [server] },
  steps: 1,
  tasksPerStep: 1,
  attemptsPerTask: 2,
  concurrency: 1,
  evaluation: { before: false, every: 0 },
  runDir,
});
for await (const { step } of run) if (step !== 1) throw new Error(`step ${step} was not asked for`);
console.log(JSON.stringify(trace));

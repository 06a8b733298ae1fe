/** A Python program with OpenAI's client against an own loop: two steps, the same tokens and the same weights. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Agent, agent, embedded, train } from 'rollcall';
import { processAgent } from 'rollcall/agents';
import type { ToolSchema } from 'rollcall/tools';
import { calculate } from '../../examples/agents/calculate.ts';
import type { Problem } from '../../examples/agents/tool-loop.ts';
import { options } from '../../examples/agents/train.ts';
import { type Aim, atLeast, holds } from '../verdict.ts';

/** As solve.py writes it. */
const CALCULATOR: ToolSchema = {
  type: 'function',
  function: {
    name: 'calculator',
    description: 'One operation on two numbers.',
    parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  },
};

const answer = (expression: unknown) => {
  try {
    return calculate(String(expression));
  } catch {
    return 'Error: not one operation on two numbers';
  }
};

const ownLoop = agent<Problem>(async ({ task, model }) => {
  const chat = model.chat({ toolSchemas: [CALCULATOR] });
  chat.user(task.question);
  for (;;) {
    const reply = await chat.sample();
    if (reply.final) return;
    chat.checkRoom(reply);
    const runs = reply.toolCalls.map((call) => ({ call, result: answer(call.arguments['expression']) }));
    chat.answer(reply, runs);
  }
});

export async function provePythonClient(setup: {
  readonly model: string;
  readonly folder: string;
  readonly python: string;
  readonly tasks: number;
}): Promise<{ readonly aims: readonly Aim[]; readonly figures: object }> {
  const program = fileURLToPath(new URL('solve_openai.py', import.meta.url));
  const pythonAgent = processAgent<Problem>({ command: [setup.python, program] });
  const own = await twoSteps(ownLoop, join(setup.folder, 'own'), setup);
  const outside = await twoSteps(pythonAgent, join(setup.folder, 'python'), setup);
  const same = (file: string) =>
    readFileSync(join(setup.folder, 'own', file)).equals(readFileSync(join(setup.folder, 'python', file)));
  const steps = [1, 2].map((step) => same(`trajectories/step_${step}.tokens`));
  return {
    aims: [
      holds(
        'python: tokens, log-probs and advantages of both steps are those of an own loop, bit for bit',
        steps.every(Boolean),
        steps,
      ),
      holds(
        'python: weights after two steps are those of an own loop, bit for bit',
        same('checkpoints/global_step_2/model.safetensors'),
      ),
      holds(
        'python: both steps had a gradient',
        outside.gradients.every((norm) => norm > 0),
        outside.gradients,
      ),
      atLeast('python: tool calls in the compared steps', outside.calls, 1),
      holds('python: no attempt failed', outside.failed === 0, outside.failed),
    ],
    figures: { own, python: outside },
  };
}

async function twoSteps(
  solver: Agent<Problem>,
  runDir: string,
  { model, tasks }: { readonly model: string; readonly tasks: number },
) {
  const began = performance.now();
  const gradients: number[] = [];
  const figures = { attempts: 0, calls: 0, failed: 0, sampled: 0, trained: 0, seconds: 0 };
  for await (const { groups, metrics } of train<Problem>({
    ...options,
    ...embedded(),
    model,
    runDir,
    agent: solver,
    steps: 2,
    tasksPerStep: tasks,
    attemptsPerTask: 4,
    evaluation: { every: 0, before: false },
    checkpoints: { every: 2 },
  })) {
    gradients.push(metrics['actor/grad_norm'] ?? 0);
    for (const { trajectory } of groups.flatMap(({ attempts }) => attempts)) {
      figures.attempts++;
      figures.calls += trajectory.turns.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0);
      figures.failed += trajectory.end.kind === 'failed' ? 1 : 0;
      for (const { sampled, trained } of trajectory.segments) {
        figures.sampled += sampled.reduce((a, b) => a + b, 0);
        figures.trained += trained.reduce((a, b) => a + b, 0);
      }
    }
  }
  return { ...figures, gradients, seconds: Math.round((performance.now() - began) / 1000) };
}
